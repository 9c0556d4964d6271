"""Runs a function as a pipeline step, for one thread of the service.

The service runs this file as a program in a sandbox, and ends it. Their messages are the structs
of runtime/step/wire.h, which are below, too. It imports nothing of this package, so that it needs
little more than the function itself; but for a Dataset, step_dataset.py.
"""

from __future__ import annotations

import __future__
import builtins
import ctypes
import ctypes.util
import errno
import glob
import importlib
import importlib.util
import io
import json
import os
import struct
import sys
import sysconfig
import tempfile
import threading
import time
import traceback
from typing import Any, Optional

SOCKET, AREAS, BUNDLE = 3, 4, 5
MESSAGE_MOST = 64 << 10
ALIGNMENT = 64
ARRAY = "II8QI65s3x"
SETUP = struct.Struct("<IIiIQQQ" + ARRAY)
DECLARED = struct.Struct("<II" + ARRAY + "65s65s512s6x")
CALL = struct.Struct("<QQ8QQQQ")
REPLY = struct.Struct("<QIIQ512s")
DONE, CORRUPT = 0, 1
TYPES = ["uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "bfloat16", "float32",
         "float64"]


class Refused(Exception):
    """The function cannot run as a step."""


def map_area(offset: int, size: int, writable: bool) -> Any:
    """Maps memory. `mmap.mmap` would duplicate the descriptor, which the sandbox forbids."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                          ctypes.c_int, ctypes.c_long]
    read, write, shared = 1, 2, 1
    address = libc.mmap(None, size, read | write * writable, shared, AREAS, offset)
    if address in (None, ctypes.c_void_p(-1).value):
        raise Refused(f"its areas cannot be mapped: {os.strerror(ctypes.get_errno())}")
    return (ctypes.c_ubyte * size).from_address(address)


def find_library(name: str) -> Optional[str]:
    """Replaces the function of ctypes.util, which starts a linker and compilers."""
    folders = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), "/lib64", "/usr/lib64", "/lib",
               "/usr/lib", "/usr/local/lib"]
    machine = sysconfig.get_config_var("MULTIARCH")
    if machine:
        folders[1:1] = [f"/lib/{machine}", f"/usr/lib/{machine}"]
    for folder in filter(None, folders):
        found = sorted(glob.glob(f"{glob.escape(folder)}/lib{glob.escape(name)}.so*"))
        if found:
            return os.path.basename(found[-1])
    return None


_open, _os_open, _mkdir = open, os.open, os.mkdir
# Where this process may write: its own temporary folder, which batchflow-step-worker has made. None:
# nowhere.
_folder: Optional[str] = None


def in_words(error: OSError) -> OSError:
    """The sandbox answers EPERM or EROFS to what would write where it may not. "Operation not
    permitted: '/tmp'", as tempfile would pass it on, does not say why."""
    if _folder is not None and error.errno == errno.EROFS:
        words = f"a step can write to its temporary folder alone ({_folder})"
    elif _folder is None and error.errno == errno.EPERM:
        why = os.environ.get("BATCHFLOW_STEP_NO_FOLDER")
        words = ("a step can write no file and make no folder" +
                 (f" here, not even a temporary one ({why})" if why else
                  ", not even a temporary one") +
                 "; hold in memory what it needs, as in io.BytesIO")
    else:
        return error
    return OSError(error.errno, words, error.filename)


def open_null_too(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
    """Replaces open(). Some libraries open /dev/null for writing, only to see the types of files
    (dill, which torch.utils.data imports). Without a folder of its own, the sandbox allows no file
    to be opened for that."""
    if _folder is None and file == os.devnull and not set(mode) <= set("rbtU"):
        file = _os_open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _open(file, mode, *arguments, **named)
    except OSError as error:
        raise in_words(error) from None


def os_open_null_too(path: Any, flags: int, *arguments: Any, **named: Any) -> int:
    """Replaces os.open() likewise."""
    if _folder is None and path == os.devnull:
        flags = os.O_RDONLY | os.O_CLOEXEC
    try:
        return _os_open(path, flags, *arguments, **named)
    except OSError as error:
        raise in_words(error) from None


def make_folder(path: Any, *arguments: Any, **named: Any) -> None:
    """Replaces os.mkdir()."""
    try:
        _mkdir(path, *arguments, **named)
    except OSError as error:
        raise in_words(error) from None


def prepare_imports() -> None:
    """Libraries look for other libraries and for a folder of temporary files when they are
    imported. Python would start programs and try to write to several folders for that."""
    global _folder
    _folder = os.environ.get("TMPDIR")
    ctypes.util.find_library = find_library
    tempfile.tempdir = _folder or "/tmp"
    builtins.open = io.open = open_null_too
    os.open = os_open_null_too
    os.mkdir = make_folder


def show_package() -> None:
    """This package as a module that is loaded when the function uses more of it than its files."""
    folder = os.path.dirname(os.path.abspath(__file__))
    spec = importlib.util.spec_from_file_location("batchflow", os.path.join(folder, "__init__.py"),
                                                  submodule_search_locations=[folder])
    assert spec is not None and spec.loader is not None
    package, loader = importlib.util.module_from_spec(spec), spec.loader

    def load_whole(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module 'batchflow' has no attribute '{name}'")
        del package.__dict__["__getattr__"]
        loader.exec_module(package)
        return getattr(package, name)
    package.__dict__["__getattr__"] = load_whole
    sys.modules["batchflow"] = package


def value_of(packed: Any) -> Any:
    """The value that steps.py packed as JSON."""
    if not isinstance(packed, dict):
        return packed
    (kind, content), = packed.items()
    if kind in ("array", "scalar"):
        import numpy
        values = numpy.frombuffer(bytes.fromhex(content[2]), content[0]).reshape(content[1])
        return values.copy() if kind == "array" else values[()]
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind == "dict":
        return {value_of(key): value_of(value) for key, value in content}
    makers: dict[str, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
    return makers[kind](value_of(one) for one in content)


def imported(module: str, name: Optional[str]) -> Any:
    try:
        found = importlib.import_module(module)
    except MemoryError as error:
        raise MemoryError(f"importing {module}").with_traceback(error.__traceback__) from None
    for part in name.split(".") if name else []:
        found = getattr(found, part)
    return found


def load(bundle: dict[str, Any], lines: list[Any]) -> Any:
    """The function, with all that it uses. `lines` are file and line of each function or class."""
    if "folder" in bundle:  # in which the script was
        os.chdir(bundle["folder"])
    sys.path[:] = [path for path in sys.path if path] + bundle["paths"]
    names: dict[str, Any] = {"__name__": "batchflow_step"}
    for name, (module, part, _) in bundle["imports"].items():
        names[name] = imported(module, part)
    for name, packed in bundle["values"].items():
        names[name] = value_of(packed)
    # What a default value or a class needs must be defined before it. The function itself is the
    # first of the list, so the list is taken from its end.
    left = list(reversed(list(zip(bundle["functions"], lines))))
    while left:
        early = left
        left = [(text, place) for text, place in early if not define(text, place, names, len(early))]
        if len(left) == len(early):
            define(left[0][0], left[0][1], names, 0)
    if "dataset" in bundle:
        step_dataset = importlib.import_module("batchflow.step_dataset")
        return step_dataset.make_step(bundle["dataset"], names, bundle["random"], TYPES)
    return names[bundle["entry"]]


def define(text: str, place: Any, names: dict[str, Any], others: int) -> bool:
    """Defines a function or class. False: it needs one of the `others` before it."""
    file, line = place
    code = compile("\n" * (line - 1) + text, file, "exec",
                   __future__.annotations.compiler_flag, dont_inherit=True)
    try:
        exec(code, names)
    except NameError:
        if others <= 1:
            raise
        return False
    return True


class Step:
    def __init__(self, bundle: dict[str, Any], lines: list[Any]):
        self.name, self.random = bundle["name"], bundle["random"]
        self.version, self._output = bundle["version"], bundle["output"]
        self._takes_seed = "dataset" in bundle
        self._files = {file for file, _ in lines} | {path for path in bundle["paths"]}
        self._begun: Optional[float] = None
        try:
            self._function = load(bundle, lines)
        except BaseException as error:
            raise Refused(self.words(error)) from None

    def words(self, error: BaseException) -> str:
        """What went wrong, and at which line of the user's code."""
        frames = [frame for frame in traceback.extract_tb(error.__traceback__)
                  if frame.filename != __file__ and not frame.filename.startswith("<frozen")]
        if isinstance(error, SyntaxError):
            return f"{error.filename}:{error.lineno}: {error.msg}"
        own = [frame for frame in frames if self._is_own(frame.filename)] or frames
        where = f"{own[-1].filename}:{own[-1].lineno}: " if own else ""
        text = " ".join(str(error).split())
        return f"{where}{type(error).__name__}{': ' + text if text else ''}"

    def _is_own(self, file: str) -> bool:
        return any(file == own or file.startswith(own + os.sep) for own in self._files)

    def __call__(self, array: Any, seed: int) -> Any:
        import numpy
        self._begun = time.monotonic()
        try:
            if self._takes_seed:
                made = self._function(array, seed)
            elif self.random:
                made = self._function(array, numpy.random.Generator(numpy.random.Philox(seed)))
            else:
                made = self._function(array)
            return numpy.asarray(made)
        finally:
            self._begun = None

    def made_of(self, kind: int, shape: list[int], ragged: bool) -> tuple[int, list[int]]:
        """Type and shape of the output: as declared, or as the function makes of zeros."""
        import numpy
        if self._output:
            return self._type(self._output[0]), self._output[1]
        if 0 in shape and kind == 0 and len(shape) == 3:
            return kind, shape  # it is taken to keep the size of pictures
        if 0 in shape or ragged:
            raise Refused("samples have not all one size here; say what it makes: "
                          "@batchflow.step(output=('float32', (10,)))")
        try:
            made = self(numpy.zeros(shape, dtype_of(kind)), 0)
        except (ImportError, MemoryError) as error:
            raise Refused(self.words(error)) from None  # no output= would help
        except BaseException as error:
            raise Refused(f"{self.words(error)} (at a sample of zeros, by which it is found out "
                          "what it makes; output=('float32', (10,)) says that instead)") from None
        return self._type(str(made.dtype)), list(made.shape)

    @staticmethod
    def _type(name: str) -> int:
        if name not in TYPES or name == "bfloat16":
            raise Refused(f"it makes {name}, and fields are of {', '.join(TYPES)}")
        return TYPES.index(name)

    def watch(self, timeout_s: float) -> None:
        """Prints the line at which the function hangs, before the service kills this process."""
        main = threading.main_thread().ident
        assert main is not None

        def look() -> None:
            while True:
                time.sleep(timeout_s / 8)
                begun = self._begun
                if begun is None or time.monotonic() - begun < timeout_s / 2:
                    continue
                frame = sys._current_frames().get(main)
                while frame is not None and not self._is_own(frame.f_code.co_filename):
                    frame = frame.f_back
                if frame is not None:
                    print(f"at {frame.f_code.co_filename}:{frame.f_lineno}", file=sys.stderr,
                          flush=True)
        threading.stack_size(512 << 10)  # the usual 8 MB would be much of the memory bound
        threading.Thread(target=look, daemon=True).start()


def dtype_of(kind: int) -> str:
    return "uint16" if TYPES[kind] == "bfloat16" else TYPES[kind]  # uint16 shows the bits


def text(words: str, room: int) -> bytes:
    return words.encode("ascii", "replace")[:room - 1]


def serve(step: Step, kind: int, dimensions: int, made: tuple[int, list[int]],
          sizes: tuple[int, int]) -> None:
    import numpy
    taken = map_area(0, sizes[0], False)
    given = map_area(sizes[0], sizes[1], True)
    of_type = numpy.dtype(dtype_of(kind))
    to_type = numpy.dtype(TYPES[made[0]])

    def answer(call: Any, index: int) -> bytes:
        number, size, *shape, output_at, output_bytes, seed = call
        at = index * -(-size // ALIGNMENT) * ALIGNMENT
        values = numpy.frombuffer(taken, of_type, size // of_type.itemsize, at)
        array = values.reshape(shape[:dimensions]).copy()
        problem = ""
        try:
            result = step(array, seed)
            wanted = tuple(made[1]) if 0 not in made[1] else array.shape
            if result.dtype != to_type or result.shape != wanted:
                problem = (f"{step.name} made {result.dtype} {result.shape}, where it makes "
                           f"{to_type} {wanted}; give it output= if that is wrong")
            else:
                output = numpy.frombuffer(given, numpy.uint8, output_bytes, output_at)
                output[:] = numpy.ascontiguousarray(result).reshape(-1).view(numpy.uint8)
        except Exception as error:
            problem = step.words(error)
        return REPLY.pack(number, CORRUPT if problem else DONE, 0, 0, text(problem, 512))

    while True:
        message = os.read(SOCKET, MESSAGE_MOST)
        if not message or len(message) % CALL.size:
            return
        os.write(SOCKET, b"".join(answer(call, index)
                                  for index, call in enumerate(CALL.iter_unpack(message))))


def main() -> None:
    setup = os.read(SOCKET, MESSAGE_MOST)
    _, parameters, _, _, _, *rest = SETUP.unpack_from(setup)
    input_bytes, output_bytes, kind, dimensions, *shape, ragged, name = rest
    shape = shape[:dimensions]
    words = setup[SETUP.size:].split(b"\0")
    given = {words[2 * i].decode(): words[2 * i + 1].decode() for i in range(parameters)}
    prepare_imports()
    show_package()
    bundle = json.loads(os.pread(BUNDLE, os.fstat(BUNDLE).st_size, 0))
    made: tuple[int, list[int]] = (0, [])
    problem, version, random = "", "", False
    try:
        step = Step(bundle, json.loads(given["places"]))
        version, random = step.version, step.random
        made = step.made_of(kind, shape, bool(ragged))
    except Refused as refused:
        problem = str(refused)
    except ImportError as error:
        problem = f"{sys.executable} has no NumPy ({error}); install it there"
    told = problem or os.environ.get("BATCHFLOW_STEP_NO_FOLDER", "")
    shape_made = (made[1] + [0] * 8)[:8]
    os.write(SOCKET, DECLARED.pack(
        CORRUPT if problem else DONE, random, made[0], len(made[1]), *shape_made, 0, name,
        text(bundle["name"], 65), text(version, 65), text(told, 512)))
    if problem or input_bytes == 0:
        return
    step.watch(float(os.environ["BATCHFLOW_STEP_TIMEOUT_S"]))
    serve(step, kind, dimensions, made, (input_bytes, output_bytes))


if __name__ == "__main__":
    main()
    # What libraries do at exit is not needed, and may hang.
    os._exit(0)
