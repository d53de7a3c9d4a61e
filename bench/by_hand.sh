#!/usr/bin/env bash
# The example's three `ray start` lines typed by hand, each node in a network and /tmp of its own as on three machines,
# each as soon as it can succeed. Prints the seconds until every node is healthy. Usage: by_hand.sh PATH_TO_RAY
set -euo pipefail
ray=$1
if [ "${2:-}" != inside ]; then
  map=; [ "$(id -u)" = 0 ] || map=--map-root-user
  exec unshare $map --net --mount --pid --fork --kill-child --mount-proc "$0" "$ray" inside
fi

work=$(mktemp -d)
mount -t tmpfs tmpfs "$work"
echo "nameserver 127.0.0.1" > "$work/resolv.conf"
ip link set lo up
ip link add bridge0 type bridge
ip address add 10.9.0.1/24 dev bridge0
ip link set bridge0 up

node() { # NUMBER RAY_START_ARGUMENTS...
  local number=$1 folder=$work/$1
  shift
  mkdir -p "$folder/tmp"
  printf '127.0.0.1 localhost\n10.9.0.%s node%s\n' "$number" "$number" > "$folder/hosts"
  unshare --net --uts --mount bash -c '
    read -r < '"$folder"'/network
    hostname node'"$number"'
    mount --bind '"$folder"'/hosts /etc/hosts
    mount --bind '"$work"'/resolv.conf "$(readlink -f /etc/resolv.conf)"
    mount --bind '"$folder"'/tmp /tmp
    mount -t tmpfs tmpfs /dev/shm
    cd /
    exec "$@"' node "$ray" start "$@" > "$folder/log" 2>&1 &
  local pid=$!
  while [ "$(readlink /proc/$pid/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do sleep 0.01; done
  ip link add "veth$number" type veth peer name eth0 netns $pid
  ip link set "veth$number" master bridge0 up
  nsenter --target $pid --net bash -c "ip link set lo up; ip address add 10.9.0.$number/24 dev eth0
    ip link set eth0 up; ip route add default via 10.9.0.1"
  echo > "$folder/network"
}

common="--block --dashboard-agent-listen-port=52365 --metrics-export-port=8080 --num-cpus=1 --object-store-memory=200000000"
begin=$EPOCHREALTIME
mkdir -p "$work"/{2,3,4}; mkfifo "$work"/{2,3,4}/network
node 2 --head --dashboard-host=0.0.0.0 --memory=2147483648 $common
until (exec 3<> /dev/tcp/10.9.0.2/6379) 2> /dev/null; do sleep 0.05; done
node 3 --address=10.9.0.2:6379 --memory=1073741824 $common
node 4 --address=10.9.0.2:6379 --memory=1073741824 $common
for number in 2 3 4; do
  until wget --tries 1 -T 2 -q -O /dev/null "http://10.9.0.$number:52365/api/healthz"; do sleep 0.05; done
done
awk -v begin="$begin" -v end="$EPOCHREALTIME" 'BEGIN { printf "%.2f\n", end - begin }'
