"""Functions as pipeline steps (docs/python.md): declared, and packed for another process.

A function is packed as its source, with what it uses: names of installed modules, plain values, and
other functions of the user. A function that uses more is imported with its whole module, if it has
one. All of this is in the bundle. Two jobs have the same step if their bundles have the same bytes;
the files and lines of functions are not part of it.
"""

from __future__ import annotations

import ast
import copy
import dis
import hashlib
import importlib.machinery
import importlib.util
import inspect
import json
import os
import sys
import sysconfig
import textwrap
import types
from pathlib import Path
from typing import Any, Callable, Iterator, Optional, TypeVar, Union, overload

_Function = TypeVar("_Function", bound=Callable[..., Any])
MARK = "_batchflow_step"
_BUNDLE_MOST = 48 << 10  # a pipeline that a job brings has at most 64 KiB
_ARRAY_MOST = 4 << 10
_INSTALLED = tuple(os.path.realpath(sysconfig.get_paths()[name]) + os.sep
                   for name in ("stdlib", "platstdlib", "purelib", "platlib"))


class NotTakable(ValueError):
    """A function that cannot run in another process; the text says why."""


@overload
def step(function: _Function) -> _Function:
    ...


@overload
def step(*, random: bool = False, version: str = "",
         output: Optional[tuple[str, tuple[int, ...]]] = None,
         memory: Union[int, str, None] = None) -> Callable[[_Function], _Function]:
    ...


def step(function: Optional[_Function] = None, *, random: bool = False, version: str = "",
         output: Optional[tuple[str, tuple[int, ...]]] = None,
         memory: Union[int, str, None] = None) -> Any:
    """Declares a function to be a step: `array -> array`, or `(array, rng) -> array` if random.

    `version` is for changes that cannot be seen in the code: raise it when a file that the function
    reads changes. `output` is the type and shape of its result, where these cannot be found out
    with a sample of zeros. `memory` is what each process may take, such as "256mib", where the
    service's own bound does not fit.
    """
    def declare(declared: _Function) -> _Function:
        if not inspect.isfunction(declared):
            raise NotTakable(f"{declared!r} is no plain function; write one with def that calls it")
        if output is not None and (len(output) != 2 or not isinstance(output[0], str)):
            raise NotTakable(f"output={output!r}: write a type and a shape, as ('float32', (3, 8))")
        setattr(declared, MARK, {
            "random": bool(random), "version": str(version), "memory": memory,
            "output": [output[0], [int(side) for side in output[1]]] if output else None})
        return declared
    return declare if function is None else declare(function)


def is_function(thing: Any) -> bool:
    """Whether it is meant as a step. `entry` says why a function cannot be one."""
    return inspect.isroutine(thing) or hasattr(thing, MARK)


def entry(function: Any) -> dict[str, Any]:
    """The step in a pipeline as the service reads it."""
    name = getattr(function, "__qualname__", repr(function))
    if not inspect.isfunction(function) or function.__name__ == "<lambda>":
        raise NotTakable(f"{name} is no function that is written with def; write one")
    if not hasattr(function, MARK):
        raise NotTakable(f"{name}: is what it makes decided by its input alone? Write "
                         "@batchflow.step before it, or @batchflow.step(random=True)")
    packer = Packer()
    packer.content.update(getattr(function, MARK), name=function.__name__[:64])
    packer.content["entry"] = function.__name__
    packer.take(function.__name__, function, function)
    packer.content.update(packer.own_modules())
    packer.source_lines = packer.source_lines or [_source_line(function)]
    bundle = json.dumps(packer.content, sort_keys=True)
    if len(bundle) > _BUNDLE_MOST:
        raise NotTakable(f"{name}: its source and values have {len(bundle)} bytes, and a job "
                         f"brings {_BUNDLE_MOST} at most; put them into a module or a file")
    return written(bundle, packer)


def written(bundle: str, packer: "Packer") -> dict[str, Any]:
    """A step with this bundle as the service reads it."""
    file, line = packer.source_lines[0]
    memory = packer.content["memory"]
    return {"python": bundle, "interpreter": sys.executable,
            "package": str(Path(__file__).parent.parent), "at": f"{file}:{line}",
            "places": json.dumps(packer.source_lines),
            **({} if memory is None else {"memory": memory})}


def _is_installed(file: str) -> bool:
    return os.path.realpath(file).startswith(_INSTALLED) or "-packages" + os.sep in file


def _source_line(function: Any) -> tuple[str, int]:
    code = function.__code__
    return os.path.abspath(code.co_filename), code.co_firstlineno


def _source(function: Any) -> tuple[str, int, ast.FunctionDef]:
    """The text of a function without its decorators, and the line at which it begins."""
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        raise NotTakable(f"{function.__qualname__}: its source cannot be found; write it into a "
                         "file") from None
    text = textwrap.dedent("".join(lines))
    node = ast.parse(text).body[0]
    if not isinstance(node, ast.FunctionDef):
        raise NotTakable(f"{function.__qualname__} is no function that is written with def")
    for decorator in node.decorator_list:
        if not _is_step(decorator, function.__globals__):
            raise NotTakable(f"{function.__qualname__}: its decorator {ast.unparse(decorator)} "
                             "cannot be taken along; put the function into a module")
    begin = node.lineno - 1
    return "".join(text.splitlines(keepends=True)[begin:]), first + begin, node


def _is_step(decorator: ast.expr, names: dict[str, Any]) -> bool:
    """Whatever it is called: `step`, or what `step(...)` gave."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    first, *parts = ast.unparse(called).split(".")
    found = names.get(first)
    for part in parts:
        found = getattr(found, part, None)
    if not callable(found):  # of the function around it, or the name is another thing's by now
        return [first, *parts][-1] == "step"
    return getattr(found, "__module__", None) == __name__


def _file_of(module: str) -> Optional[str]:
    """Nothing is imported for it."""
    if module in sys.modules:
        return getattr(sys.modules[module], "__file__", None)
    spec = _spec(module)
    return spec.origin if spec and spec.has_location else None


def _spec(module: str) -> Optional[importlib.machinery.ModuleSpec]:
    package = module.rpartition(".")[0]
    above = _spec(package) if package else None
    if package and (above is None or above.submodule_search_locations is None):
        return None
    return importlib.machinery.PathFinder.find_spec(
        module, above.submodule_search_locations if above else None)


def _imports(tree: ast.AST, package: str) -> Iterator[str]:
    """What may be modules among the names that it imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            try:
                base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            except ImportError:
                continue  # there is no such package: it fails there, too
            yield base
            yield from (f"{base}.{one.name}" for one in node.names)


def _used_names(code: types.CodeType) -> set[str]:
    names: set[str] = set(code.co_freevars)
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            raise NotTakable(f"{code.co_name}: it changes the global {instruction.argval}, and "
                             "what a step makes may depend on its input alone")
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names.add(instruction.argval)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            names |= _used_names(inner) - set(code.co_cellvars) - set(code.co_varnames)
    return names


def _names_outside_functions(node: ast.AST) -> set[str]:
    """The names that a class needs where it is defined."""
    names: set[str] = set()
    left = [node]
    while left:
        one = left.pop()
        if isinstance(one, ast.Name):
            names.add(one.id)
        inner = list(ast.iter_child_nodes(one))
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            defaults = [default for default in one.args.kw_defaults if default is not None]
            inner = [*getattr(one, "decorator_list", []), *one.args.defaults, *defaults]
        elif isinstance(one, ast.AnnAssign):  # annotations are not looked at
            inner = [] if one.value is None else [one.value]
        left += inner
    return names


def _functions_of(value: Any) -> list[Any]:
    """The functions of an attribute of a class."""
    if isinstance(value, property):
        every = [value.fget, value.fset, value.fdel]
    else:
        every = [getattr(value, "__func__", value)]
    return [inspect.unwrap(one) for one in every if inspect.isfunction(one)]


def _is_torchs_dataset(value: Any) -> bool:
    return (inspect.isclass(value) and value.__name__ == "Dataset" and
            value.__module__ == "torch.utils.data.dataset")


def _value(value: Any) -> Any:
    """As JSON that tells a tuple from a list; step_worker.py reads it."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) in (list, tuple):
        return {type(value).__name__: [_value(one) for one in value]}
    if type(value) in (set, frozenset):
        return {type(value).__name__: sorted((_value(one) for one in value), key=repr)}
    if type(value) is dict:
        return {"dict": [[_value(key), _value(one)] for key, one in value.items()]}
    if type(value) is bytes:
        return {"bytes": value.hex()}
    numpy = sys.modules.get("numpy")
    if numpy and isinstance(value, (numpy.ndarray, numpy.generic)) and value.dtype.kind in "biufc":
        if value.nbytes > _ARRAY_MOST:
            raise NotTakable(f"an array of {value.nbytes} bytes; load it from a file in a module")
        return {"array" if isinstance(value, numpy.ndarray) else "scalar":
                [value.dtype.str, list(value.shape), value.tobytes().hex()]}
    raise NotTakable(f"a {type(value).__name__}")


class Packer:
    """Follows what a function uses. `takes_classes`: it also takes classes of a script, by their
    source."""

    def __init__(self, takes_classes: bool = False) -> None:
        self._takes_classes = takes_classes
        self.content: dict[str, Any] = {"imports": {}, "values": {}, "functions": []}
        self.source_lines: list[tuple[str, int]] = []
        self._taken: dict[str, Any] = {}
        self._own: dict[str, tuple[str, str]] = {}  # the user's modules: hash, folder

    def add_function(self, name: str, function: Any) -> None:
        text, line, node = _source(function)
        if node.name != name:
            raise NotTakable(f"{name} is another name of {node.name}; use one name")
        if any(isinstance(one, ast.ImportFrom) and one.level for one in ast.walk(node)):
            raise NotTakable(f"{name}: it imports from the package it stands in; do that outside")
        for module in _imports(node, ""):
            self._reach(module)
        self.content["functions"].append(text)
        self.source_lines.append((_source_line(function)[0], line))
        used = _used_names(function.__code__)
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                used |= {one.id for one in ast.walk(default) if isinstance(one, ast.Name)}
        self._take_used(used, function, function)

    def _take_used(self, used: set[str], function: Any, user: Any) -> None:
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        for each in sorted(used):
            try:
                value = cells[each].cell_contents if each in cells else function.__globals__[each]
            except (KeyError, ValueError):
                continue  # a builtin, or not there yet: then it says so when it is used
            self.take(each, value, user)

    def add_class(self, name: str, taken: type) -> None:
        """A class of a script, which no module has, by its source."""
        if taken.__qualname__ != name:
            raise NotTakable(f"{taken.__qualname__} is not at the top of its script; move it there, or "
                             "into a module")
        try:
            lines, first = inspect.getsourcelines(taken)
        except (OSError, TypeError):
            raise NotTakable(f"the source of {name} cannot be found; write it into a file") from None
        text = textwrap.dedent("".join(lines))
        node = ast.parse(text).body[0]
        self.content["functions"].append(text)
        file = inspect.getsourcefile(taken) or taken.__module__
        self.source_lines.append((os.path.abspath(file), first))
        used = _names_outside_functions(node)
        values = vars(sys.modules[taken.__module__])
        for each in sorted(used & set(values)):
            value = values[each]
            if _is_torchs_dataset(value):  # it has nothing that a Dataset of the script needs
                self._taken[each] = value
                self.content["imports"][each] = ["batchflow.step_dataset", "Dataset", ""]
            else:
                self.take(each, value, taken)
        for one in vars(taken).values():
            for function in _functions_of(one):
                if function.__module__ == taken.__module__:
                    inner = _used_names(function.__code__) - {"__class__"}
                    self._take_used(inner, function, taken)

    def take(self, name: str, value: Any, user: Any) -> None:
        if name in self._taken:
            if self._taken[name] is not value:
                raise NotTakable(f"{user.__qualname__}: two things it uses are called {name}")
            return
        self._taken[name] = value
        if self._is_own(value) and inspect.isfunction(value) and value.__name__ != "<lambda>":
            before = copy.deepcopy(self.content), list(self.source_lines), dict(self._taken)
            try:
                return self.add_function(name, value)
            except NotTakable:
                self.content, self.source_lines, self._taken = before
                if not self.importable(value):
                    raise
        imported = self.importable(value)
        if not imported and inspect.isclass(value) and self._takes_classes:
            return self.add_class(name, value)
        if imported:
            self.content["imports"][name] = imported
        else:
            try:
                self.content["values"][name] = _value(value)
            except NotTakable as problem:
                raise NotTakable(
                    f"{user.__qualname__}: it uses {name}, {problem}, which cannot be taken along "
                    "to another process; make it within the function, or put both into a module"
                ) from None

    def importable(self, value: Any) -> Optional[list[Optional[str]]]:
        """[module, name in it or None, version], if the value can be imported."""
        name = None if isinstance(value, types.ModuleType) else getattr(value, "__qualname__", None)
        module = sys.modules.get(value.__name__ if isinstance(value, types.ModuleType) else
                                 getattr(value, "__module__", None) or "")
        if module is None or module.__name__ == "__main__":
            return None
        if not isinstance(value, types.ModuleType):
            found: Any = module
            for part in (name or "").split("."):
                found = getattr(found, part, None)
            if found is not value:
                return None
        return [module.__name__, name, self._version(module)]

    @staticmethod
    def _is_own(value: Any) -> bool:
        """Whether it is the user's own, not part of an installed module."""
        module = sys.modules.get(getattr(value, "__module__", None) or "")
        file = getattr(module, "__file__", None)
        if module is None or module.__name__ == "__main__":
            return True
        return bool(file) and not _is_installed(str(file))

    def _version(self, module: types.ModuleType) -> str:
        """The version of an installed module. The user's own modules are hashed instead."""
        self._reach(module.__name__)
        top = sys.modules.get(module.__name__.split(".")[0], module)
        return "" if module.__name__ in self._own else str(getattr(top, "__version__", ""))

    def _reach(self, module: str) -> None:
        """Adds a module of the user, the packages around it, and all modules that they import."""
        file = _file_of(module)
        if module in self._own or file is None or _is_installed(file):
            return
        content = Path(file).read_bytes()
        is_package = Path(file).name == "__init__.py"
        around = module.rpartition(".")[0]
        self._own[module] = (hashlib.sha256(content).hexdigest(),
                             str(Path(file).resolve().parents[module.count(".") + is_package]))
        if around:
            self._reach(around)
        try:
            tree = ast.parse(content)
        except (SyntaxError, ValueError):
            return  # it is compiled code, or cannot be imported
        for imported in _imports(tree, module if is_package else around):
            self._reach(imported)

    def own_modules(self) -> dict[str, Any]:
        """The user's modules, as keys of the bundle."""
        written = json.dumps(sorted((name, digest) for name, (digest, _) in self._own.items()))
        return {"modules": hashlib.sha256(written.encode()).hexdigest() if self._own else "",
                "paths": sorted({folder for _, folder in self._own.values()})}


def entries(steps: Any) -> list[dict[str, Any]]:
    """Steps as they are written in YAML, and functions."""
    return [entry(one) if is_function(one) else dict(one) for one in steps]


Step = Union[dict[str, Any], Callable[..., Any]]
