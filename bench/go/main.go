// What a bare client-go program does on the same server, for bench/kube.py to compare with.
//
//	creates KUBECONFIG PREFIX COUNT IN_FLIGHT   creates Pods and prints how fast, and at what cost
//	informer KUBECONFIG protobuf|json           follows all Pods until one called "end" comes; prints what that cost
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
)

const namespace = "bench"

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[2])
	check(err)
	config.QPS = -1 // no limit of its own
	switch os.Args[1] {
	case "creates":
		creates(config, os.Args[3], number(os.Args[4]), number(os.Args[5]))
	case "informer":
		if os.Args[3] == "protobuf" {
			config.ContentType = "application/vnd.kubernetes.protobuf"
			config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
		}
		informer(config)
	}
}

func creates(config *rest.Config, prefix string, count, inFlight int) {
	// JSON is what operators of custom resources speak, and what the other side of the comparison does.
	client := kubernetes.NewForConfigOrDie(config).CoreV1().Pods(namespace)
	var next atomic.Int64
	var workers sync.WaitGroup
	began, used := time.Now(), cpu()
	for range inFlight {
		workers.Go(func() {
			for i := next.Add(1); i <= int64(count); i = next.Add(1) {
				_, err := client.Create(context.Background(), pod(fmt.Sprintf("%s-%d", prefix, i)), metav1.CreateOptions{})
				check(err)
			}
		})
	}
	workers.Wait()
	check(json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"rate": float64(count) / time.Since(began).Seconds(), "us": (cpu() - used) / float64(count) * 1e6,
	}))
}

func informer(config *rest.Config) {
	factory := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(config), 0)
	pods := factory.Core().V1().Pods().Informer()
	check(pods.AddIndexers(cache.Indexers{"owner": func(obj any) ([]string, error) {
		var owners []string
		for _, owner := range obj.(*corev1.Pod).OwnerReferences {
			owners = append(owners, string(owner.UID))
		}
		return owners, nil
	}}))
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	done := make(chan struct{})
	seen := 0
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			enqueue(queue, obj)
			if obj.(*corev1.Pod).Name == "end" {
				close(done)
			}
		},
		UpdateFunc: func(_, obj any) {
			enqueue(queue, obj)
			seen++
		},
	})
	check(err)
	go func() {
		for {
			key, closed := queue.Get()
			if closed {
				return
			}
			queue.Forget(key)
			queue.Done(key)
		}
	}()
	began := cpu()
	factory.Start(context.Background().Done())
	cache.WaitForCacheSync(nil, pods.HasSynced)
	listed, synced := cpu()-began, rss()
	fmt.Fprintln(os.Stderr, "synced")
	began = cpu()
	<-done
	check(json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"pods": float64(len(pods.GetStore().ListKeys())), "list": listed, "synced": synced, "rss": rss(),
		"events": float64(seen), "us": (cpu() - began) / float64(max(seen, 1)) * 1e6,
	}))
}

func enqueue(queue workqueue.TypedRateLimitingInterface[string], obj any) {
	key, err := cache.MetaNamespaceKeyFunc(obj)
	check(err)
	queue.Add(key)
}

// A Pod of 5 kB, like the one of bench/kube.py.
func pod(name string) *corev1.Pod {
	var environment []corev1.EnvVar
	for i := range 27 {
		value := fmt.Sprintf("value-of-setting-%d-%s", i, strings.Repeat("x", 62))
		environment = append(environment, corev1.EnvVar{Name: fmt.Sprintf("RAY_SETTING_%d", i), Value: value})
	}
	var volumes []corev1.Volume
	var mounts []corev1.VolumeMount
	for i := range 6 {
		volume := fmt.Sprintf("volume-%d", i)
		source := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}
		volumes = append(volumes, corev1.Volume{Name: volume, VolumeSource: source})
		mounts = append(mounts, corev1.VolumeMount{Name: volume, MountPath: "/mnt/" + volume})
	}
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				"ray.io/cluster": "training", "ray.io/group": "gpu-workers", "ray.io/node-type": "worker",
				"app.kubernetes.io/name": "kuberay", "app.kubernetes.io/created-by": "kuberay-operator",
			},
			Annotations: map[string]string{"ray.io/ft-enabled": "false"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "ray.io/v1", Kind: "RayCluster", Name: "training",
				UID: "8c4a6c34-6a5b-4b0e-9d2e-1f6a3f0c1d2e", Controller: &yes, BlockOwnerDeletion: &yes,
			}},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name:    "ray-worker",
				Image:   "registry.example.com/team/ray:2.60.0-py311-gpu",
				Command: []string{"/bin/bash", "-c", "--"},
				Args: []string{
					"ulimit -n 65536; ray start --address=head-svc.bench.svc:6379 --block --num-cpus=4 " + strings.Repeat("y", 200),
				},
				Env:          environment,
				VolumeMounts: mounts,
			}},
			Volumes:       volumes,
			RestartPolicy: corev1.RestartPolicyAlways,
			NodeSelector:  map[string]string{"node.kubernetes.io/instance-type": "g5.12xlarge"},
		},
	}
}

func cpu() float64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func rss() float64 {
	text, err := os.ReadFile("/proc/self/statm")
	check(err)
	return float64(number(strings.Fields(string(text))[1])*os.Getpagesize()) / 1e6
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
