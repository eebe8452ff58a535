"""Compiles CUDA kernels with the run-time compiler, which needs no GPU: python compile_kernels.py FILE.cu ...

Prints one line a kernel and exits 1 when one does not compile. The library comes from the package nvidia-cuda-nvrtc.
"""
import ctypes
import glob
import os
import sys
import sysconfig

ARCHITECTURES = ("compute_80", "compute_90", "compute_120")


def nvrtc():
    roots = {sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"]}
    for root in roots:
        for path in sorted(glob.glob(os.path.join(root, "nvidia", "**", "libnvrtc.so.*"), recursive=True)):
            if "builtins" not in path and ".alt." not in path:
                return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    sys.exit("libnvrtc was not found: install the package nvidia-cuda-nvrtc")


def compile_one(library, path, architecture):
    program = ctypes.c_void_p()
    with open(path, "rb") as source:
        text = source.read()
    status = library.nvrtcCreateProgram(ctypes.byref(program), text, os.path.basename(path).encode(), 0, None, None)
    if status:
        return status, "could not create the program"
    options = [f"--gpu-architecture={architecture}".encode(), b"--std=c++17"]
    status = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return status, log.value.decode(errors="replace")


def main():
    library, failed = nvrtc(), 0
    for path in sys.argv[1:]:
        for architecture in ARCHITECTURES:
            status, log = compile_one(library, path, architecture)
            failed += status != 0
            print(f"{path} {architecture}: {'compiles' if status == 0 else 'FAILS'}")
            if status:
                print(log)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
