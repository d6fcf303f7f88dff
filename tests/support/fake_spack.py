"""Enough of Spack to run one recipe: directives are recorded and checked for form, nothing is concretised.

What it knows: that a directive has no keyword Spack lacks, that a spec is spelt as Spack spells them, that a condition
names only variants that are declared, and which dependencies follow from given values of the variants. It knows no
other recipe: whether Kokkos has such a variant, and whether all wishes can be met at once, only `spack spec` tells.
"""

import importlib.util
import os
import re
import subprocess
import sys
import types

CONDITION = re.compile(r"(?P<flag>[+~])(?P<name>\w+)|(?P<key>\w+)=(?P<value>[\w.,:+-]+)")
SPEC = re.compile(r"""(\^(\[virtuals=\w+\]\s*)?)?              # a dependency, or a provider
                      (?P<package>[a-z][a-z0-9-]*(?![\w=]))? # its name
                      (?P<version>@[\w.:,]+)?
                      (?P<variants>(\s*[+~]\w+|\s*\b\w+=[\w.,:+-]+)*)\s*""", re.VERBOSE)
KEYWORDS = {
    "version": {"branch", "tag", "commit", "sha256", "preferred", "deprecated"},
    "variant": {"default", "values", "multi", "sticky", "when", "description"},
    "depends_on": {"when", "type"},
    "conflicts": {"when", "msg"},
}


def parts(spec):
    """The specs behind one another in 'a+b ^c@1': a list of matches; ValueError where the spelling is wrong."""
    found, position = [], 0
    while position < len(spec):
        match = SPEC.match(spec, position)
        if match.end() == position or (found and not match[1]):
            raise ValueError(f"not a spec from column {position}: '{spec}'")
        found.append(match)
        position = match.end()
    return found


def holds(condition, values):
    """Whether a condition on this package's own variants is met; one on a dependency counts as not met."""
    if "^" in condition:
        return False
    return all(
        values.get(match["name"]) == (match["flag"] == "+") if match["name"] else values.get(match["key"]) == match["value"]
        for match in CONDITION.finditer(condition)
    )


class Prefix(str):
    """A folder whose attributes are the folders and files in it."""

    def __getattr__(self, name):
        return Prefix(os.path.join(self, name))


class Program:
    """What `which` gives: called with arguments, and returns what the program wrote where `output` asks for it."""

    def __init__(self, path):
        self.path = path

    def __call__(self, *arguments, output=None, error=None):
        result = subprocess.run([self.path, *arguments], capture_output=True, text=True, timeout=120)
        if result.returncode != 0:
            raise RuntimeError(f"{self.path} {' '.join(arguments)}: {result.returncode}\n{result.stderr}")
        return result.stdout + (result.stderr if error else "") if output else None


class Recipe:
    """What the directives of a recipe have said."""

    def __init__(self):
        self.versions, self.variants, self.dependencies, self.conflicts = [], {}, [], []
        self.variants["cuda"] = self.variants["rocm"] = {"default": False}  # of the base classes

    def note(self, directive, subject, keywords):
        unknown = set(keywords) - KEYWORDS[directive]
        if unknown:
            raise ValueError(f"{directive}('{subject}') has no {', '.join(unknown)}")
        condition = keywords.get("when", "")
        for text in (condition, *([subject] if directive in ("depends_on", "conflicts") else [])):
            parts(text)
        own = condition.split("^")[0] + ("" if directive != "conflicts" else " " + subject.split("^")[0])
        for match in CONDITION.finditer(own):
            if (match["name"] or match["key"]) not in self.variants:
                raise ValueError(f"{directive}('{subject}', when='{condition}'): no such variant")

    def version(self, name, **keywords):
        self.note("version", name, keywords)
        self.versions.append(name)

    def variant(self, name, **keywords):
        self.variants[name] = keywords
        self.note("variant", name, keywords)
        if "description" not in keywords:
            raise ValueError(f"variant {name} has no description")

    def depends_on(self, spec, **keywords):
        self.note("depends_on", spec, keywords)
        self.dependencies.append((spec, keywords.get("when", ""), keywords.get("type", "")))

    def conflict(self, spec, **keywords):
        self.note("conflicts", spec, keywords)
        if not keywords.get("msg"):
            raise ValueError(f"conflict '{spec}' does not say why")
        self.conflicts.append((spec, keywords.get("when", "")))

    def values(self, **chosen):
        """The defaults of all variants with some of them chosen."""
        return {**{name: keywords["default"] for name, keywords in self.variants.items()}, **chosen}

    def asked_of(self, package, values):
        """All that follows for one dependency from the values of the variants: a set of '+cuda', 'cuda_arch=90', '@4:'."""
        asked = set()
        for spec, condition, _ in self.dependencies:
            first = parts(spec)[0]
            if first["package"] == package and holds(condition, values):
                asked.update(match[0] for match in CONDITION.finditer(first["variants"]))
                asked.update([first["version"]] if first["version"] else [])
        return asked

    def refused(self, values):
        return any(holds(spec, values) and holds(condition, values) for spec, condition in self.conflicts)


class CMakePackage:
    """The base class of a package that is already concretised: `values` of its variants, and where it lies."""

    def __init__(self, values, prefix="/prefix", run_tests=False):
        self.values, self.prefix, self.run_tests, self.spec = values, Prefix(prefix), run_tests, self

    def __getitem__(self, package):
        return types.SimpleNamespace(kokkos_cxx="/kokkos/bin/nvcc_wrapper", hipcc="/hip/bin/hipcc",
                                     prefix=Prefix(f"/{package}"))

    def satisfies(self, condition):
        if condition == "^[virtuals=mpi] cray-mpich":
            return self.values.get("mpi") == "cray-mpich"
        return holds(condition, self.values)

    def define(self, name, value):
        if isinstance(value, bool):
            return f"-D{name}:BOOL={'ON' if value else 'OFF'}"
        return f"-D{name}:STRING={value}"

    def define_from_variant(self, name, variant):
        return self.define(name, self.values[variant])


def load(path):
    """The class of the recipe at `path`, and the Recipe it has told."""
    recipe = Recipe()
    package = types.ModuleType("spack.package")
    package.__dict__.update(version=recipe.version, variant=recipe.variant, depends_on=recipe.depends_on,
                            conflicts=recipe.conflict, license=lambda name: None, join_path=os.path.join,
                            which=lambda path, required: Program(path))
    cuda = type("CudaPackage", (), {"cuda_arch_values": ("80", "90", "100")})
    rocm = type("ROCmPackage", (), {"amdgpu_targets": ("gfx90a", "gfx942")})
    modules = {"spack": types.ModuleType("spack"), "spack.package": package}
    for name, member in (("cmake", CMakePackage), ("cuda", cuda), ("rocm", rocm)):
        module = types.ModuleType(name)
        setattr(module, member.__name__, member)
        modules[f"spack_repo.builtin.build_systems.{name}"] = module
    for name in ("spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"):
        modules[name] = types.ModuleType(name)
    sys.modules.update(modules)
    try:
        specification = importlib.util.spec_from_file_location("partita_recipe", path)
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
    finally:
        for name in modules:
            del sys.modules[name]
    return module.Partita, recipe
