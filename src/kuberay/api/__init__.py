"""The data model of `ray.io`: types, defaults, validation and CRDs. Pure: nothing here reads or writes anything.

Start with `kuberay.api.v1` (the types), then `kuberay.api.validate` (what is wrong with an object) and
`kuberay.api.crd` (the definitions an API server needs).
"""
