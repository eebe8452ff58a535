"""Compiles CUDA kernels with the run-time compiler, which needs no GPU: python compile_kernels.py [--report FILE] FILE.cu ...

Makes machine code for every architecture the binary may meet, prints one line a kernel, and exits 1 when one does not compile or
when a kernel marked `// hot` in its first line spills registers. With --report the registers, shared memory and spills of each are written down.
The library comes from the package nvidia-cuda-nvrtc.
"""
import ctypes
import glob
import os
import re
import sys
import sysconfig

ARCHITECTURES = ("sm_80", "sm_90", "sm_100", "sm_120")


def nvrtc():
    roots = {sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"]}
    for root in roots:
        for path in sorted(glob.glob(os.path.join(root, "nvidia", "**", "libnvrtc.so.*"), recursive=True)):
            if "builtins" not in path and ".alt." not in path:
                return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    sys.exit("libnvrtc was not found: install the package nvidia-cuda-nvrtc")


def headers(path):
    """What kernels may include: the .cuh files of the cuda folder, by name."""
    folder = os.path.join(path[: path.index("kernels/src") + len("kernels/src")], "cuda")
    found = sorted(glob.glob(os.path.join(folder, "*.cuh")))
    texts = [open(header, "rb").read() for header in found]
    names = [os.path.basename(header).encode() for header in found]
    return texts, names


def compile_one(library, path, architecture):
    program = ctypes.c_void_p()
    with open(path, "rb") as source:
        text = source.read()
    texts, names = headers(path)
    strings = ctypes.c_char_p * len(texts)
    status = library.nvrtcCreateProgram(
        ctypes.byref(program), text, os.path.basename(path).encode(), len(texts), strings(*texts), strings(*names)
    )
    if status:
        return status, "could not create the program"
    options = [f"--gpu-architecture={architecture}".encode(), b"--std=c++17", b"--extra-device-vectorization", b"-Xptxas=-v"]
    status = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return status, log.value.decode(errors="replace")


def number(pattern, log):
    found = re.search(pattern, log)
    return int(found.group(1)) if found else 0


def main():
    arguments, report = sys.argv[1:], None
    if arguments[:1] == ["--report"]:
        report, arguments = arguments[1], arguments[2:]
    library, failed, lines = nvrtc(), 0, []
    for path in arguments:
        name = os.path.basename(path)
        is_hot = open(path).readline().rstrip().endswith("// hot")
        for architecture in ARCHITECTURES:
            status, log = compile_one(library, path, architecture)
            if status:
                failed += 1
                print(f"{name} {architecture}: FAILS\n{log}")
                continue
            registers, spills = number(r"Used (\d+) registers", log), number(r"(\d+) bytes spill stores", log)
            stack, shared = number(r"(\d+) bytes stack frame", log), number(r"(\d+) bytes smem", log)
            line = f"{name} {architecture}: {registers} registers, {shared} bytes shared, {stack} bytes stack, {spills} bytes spilled"
            if is_hot and spills:
                failed += 1
                line += ": FAILS, a hot kernel must not spill"
            lines.append(line)
            print(line)
    if report:
        with open(report, "w") as file:
            file.write("\n".join(lines) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
