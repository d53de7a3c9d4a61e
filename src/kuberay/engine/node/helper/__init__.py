"""The process that owns the namespaces of every Pod; the engine asks it over one socket.

It is init of a PID namespace of its own, so when it goes, for whatever reason, every Pod's processes, mounts and
network go with it: there is nothing to clean up. It is single-threaded (it forks), imports the standard library
only (it has to start in milliseconds), and decides nothing: what to run is the engine's business.

The same design serves root and everybody else: without the right to make namespaces it first makes a user
namespace in which it has it. The host's own network and mounts are never touched.
"""
