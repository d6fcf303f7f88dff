#!/usr/bin/env python3
"""Prints how many registers and how much stack the kernels of a program for NVIDIA GPUs use, those with the most
stack first, and fails if one uses more stack than the limit: arrays that do not fit into registers are kept there, in
slow memory."""
import argparse
import re
import shutil
import subprocess
import sys

KERNEL = re.compile(r"Function (\S+?):\s*\n\s*REG:(\d+) STACK:(\d+) SHARED:(\d+)")


def resources(program):
    """(stack, registers, shared memory, name) of each kernel, in bytes and 32-bit registers."""
    tool = shutil.which("cuobjdump") or shutil.which("cuobjdump", path="/usr/local/cuda/bin")
    if tool is None:
        sys.exit("resources.py: there is no cuobjdump; it comes with CUDA, and as the wheel nvidia-cuda-cuobjdump")
    done = subprocess.run([tool, "--dump-resource-usage", program], capture_output=True, text=True)
    found = [(int(stack), int(registers), int(shared), name)
             for name, registers, stack, shared in KERNEL.findall(done.stdout)]
    if not found:
        sys.exit(f"resources.py: {program} has no kernels for NVIDIA GPUs {done.stderr.strip()}".strip())
    return sorted(found, reverse=True)


def readable(name):
    """What Kokkos runs, without its own templates."""
    if shutil.which("c++filt"):
        name = subprocess.run(["c++filt", name], capture_output=True, text=True).stdout.strip()
    body = re.search(r"partita::.*", name)
    return (body.group() if body else name).replace("(anonymous namespace)::", "")[:100]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="a program or object file, such as build/cuda/bin/partita")
    parser.add_argument("--limit", type=int, default=64, metavar="BYTES", help="largest stack allowed (default 64)")
    parser.add_argument("--rows", type=int, default=10, metavar="N", help="kernels to print (default 10)")
    arguments = parser.parse_args()
    kernels = resources(arguments.program)
    above = [kernel for kernel in kernels if kernel[0] > arguments.limit]
    print(f"{len(kernels)} kernels, {sum(kernel[0] > 0 for kernel in kernels)} with a stack, at most "
          f"{max(kernel[1] for kernel in kernels)} registers")
    print("stack registers shared kernel")
    for stack, registers, shared, name in kernels[:max(arguments.rows, len(above))]:
        print(f"{stack:5} {registers:9} {shared:6} {readable(name)}")
    if above:
        sys.exit(f"resources.py: {len(above)} of {len(kernels)} kernels use more than {arguments.limit} bytes of stack")


if __name__ == "__main__":
    main()
