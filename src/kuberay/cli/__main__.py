"""`python -m kuberay.cli`: how the command starts itself again in the background."""

from kuberay.cli import main

main(prog_name="kuberay")
