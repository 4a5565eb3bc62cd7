"""What one process found out serves the next, which imports no stage; and never a wrong number."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import elemc as ec
from elemc import cache, plans, templating
from elemc.errors import ArgumentError, DomainError

HELD, KEEP = plans.held, plans.keep  # conftest.py puts others in their places

STAGES = ("compiler", "simplify", "lower", "specialize", "schedule", "emit", "runtime", "binding",
          "cache", "build_jobs")
OTHERS = ("jinja2", "hashlib", "json", "pathlib", "shutil", "subprocess", "tempfile")

# One function per line: what `case` calls must give the same bits with and without plans.
SCRIPT = """\
import sys, threading
import numpy as np
import elemc as ec
before = set(sys.modules)
x, y = ec.vector("x"), ec.vector("y")
a, b = np.linspace(0.1, 2, 23), np.linspace(-1, 1, 23)
m = np.linspace(-3, 3, 60).reshape(6, 10)
results = {}
def late():
    names = [*(f"elemc.{s}" for s in STAGES), *OTHERS]
    return [n for n in names if n in sys.modules and n not in before]
def case(name, call):
    had = late()
    got = call()
    got = list(got.values()) if isinstance(got, dict) else got if isinstance(got, (tuple, list)) else [got]
    results[name] = [[str(g.dtype), list(g.shape), g.tobytes().hex()] for g in map(np.asarray, got)]
    if late() != had:
        results[name].append("stages")
def norm(x, g):
    d = x - x.mean(axis=-1, keepdims=True)
    return d / np.sqrt((d * d).mean(axis=-1, keepdims=True) + 1e-5) * g
def parts(x):
    return {"twice": x * 2, "sum": x.sum()}
@ec.compile
def split(x):
    return x + 1, (x * 2).sum()
def accumulated():
    top = ec.Accumulator("top", -5.0, lambda a, v: np.maximum(a, v + NUMBER), merge=np.maximum)
    return ec.function([x], ec.accumulate(top, x))
def at_once(f, *args):
    got = [None] * 4
    def run(k):
        got[k] = f(*args)
    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    return got
any_x, any_y = ec.array("x", 1, dtype=None), ec.array("y", 0, dtype=None)
open_f = ec.function([any_x, any_y], any_x * any_y)
case("elementwise", lambda: ec.function([x, y], x * y + NUMBER)(a, b))
case("strided", lambda: ec.function([x, y], x * y - 2)(a[::2], b[::-2]))
case("out", lambda: ec.function([x, y], x - y)(a, b, out=np.zeros(23)))
c = a.copy()
case("in place", lambda: ec.function([x, y], x / y)(c, b, out=c))
case("outputs", lambda: ec.function([x], [x + 1, x.sum()])(a))
case("norm", lambda: ec.compile(norm)(m, m[0]))
case("dict", lambda: ec.compile(parts)(a))
case("tuple", lambda: split(a))
case("captured", lambda: ec.function([x], x * np.arange(23.0) + np.arange(NUMBER, NUMBER + 23.0))(a))
case("highest", lambda: accumulated()(a))
case("mean", lambda: ec.function([x], ec.mean(x))(a))
case("scan", lambda: ec.function([x], ec.cumsum(x))(a))
case("open", lambda: open_f(a.astype("f4"), np.ones((), "f4")))
case("number", lambda: ec.compile(lambda x, s: x * s + 1)(a, 2.5))
case("scalar", lambda: ec.compile(lambda x, s: x * s + 1)(a, np.float32(2.5)))
case("integers", lambda: ec.compile(lambda x, s: x // s)(np.arange(5), np.arange(5) + 3))
case("op", lambda: ec.compile(ec.scalar_op("mine", c="fabs({x}) + 1", numpy=lambda x: abs(x) + 1, arity=1))(a))
case("traced op", lambda: ec.compile(ec.scalar_op("own", lambda x: x * x + NUMBER))(a))
case("gradient", lambda: ec.compile(ec.grad(lambda x: (x * x).sum()))(a))
case("gradient of a norm", lambda: ec.compile(ec.grad(lambda x, g: (norm(x, g) ** 3 * NUMBER).sum(), wrt=(0, 1)))(m, m[0]))
case("gradient of a product", lambda: ec.compile(ec.grad(lambda x: x.prod(axis=1).max() + ec.cumsum(x, axis=1).max()))(m))
case("gradient of an accumulator", lambda: ec.compile(ec.grad(lambda x: (x * accumulated()(x)).sum()))(a))
case("complex", lambda: ec.compile(lambda x: x * x)(a + 1j * b))
case("contract", lambda: ec.function([x, y], x * y + 3, contract=True)(a, b))
case("threads", lambda: at_once(ec.function([x, y], x * y + 7), a, b))
"""


def run(script, directory, number=1):
    """The standard output of a process of its own."""
    head = f"STAGES, OTHERS, NUMBER = {STAGES}, {OTHERS}, {number}\n"
    env = {**os.environ, "ELEMC_CACHE_DIR": str(directory), "ELEMC_CFLAGS": "-O0",
           "PYTHONPATH": str(Path(ec.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-W", "error", "-c", head + script], env=env,
                          capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return done.stdout


def all_cases(directory, number=1):
    """The results of SCRIPT by name, and the names of the functions that needed a stage."""
    out = run(f"{SCRIPT}\nprint(repr(results))", directory, number)
    results = json.loads(out.replace("'", '"'))
    needed = {name for name, got in results.items() if got[-1] == "stages"}
    return {name: [g for g in got if g != "stages"] for name, got in results.items()}, needed


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """A cache directory that a process has filled, and what it computed."""
    directory = tmp_path_factory.mktemp("warm") / "cache"
    return directory, all_cases(directory)[0]


def copied(warm, tmp_path):
    """A copy of the cache directory for one test."""
    shutil.copytree(warm[0], tmp_path / "cache")
    return tmp_path / "cache"


def test_a_second_process_needs_no_stage(warm):
    directory, expected = warm
    results, needed = all_cases(directory)
    assert results == expected
    assert needed <= {"threads"}  # one that comes between another's search and its finding


def test_other_constants_are_other_functions(warm, tmp_path):
    directory = copied(warm, tmp_path)
    expected, _ = all_cases(tmp_path / "empty", 2)
    results, needed = all_cases(directory, 2)
    assert results == expected and needed == {"elementwise"}  # which imports them for the others
    for name in ("elementwise", "captured", "highest", "traced op"):
        assert results[name] != warm[1][name], name


def files(directory):
    return [path for path in (directory / "plans").rglob("*") if path.is_file()]


def test_damaged_plans_are_none(warm, tmp_path):
    directory = copied(warm, tmp_path)
    assert len(files(directory)) > 15
    for k, path in enumerate(files(directory)):
        data = bytearray(path.read_bytes())
        data[(37 * k) % len(data)] ^= 1 << k % 8
        path.write_bytes([data, data[:-1], b"", bytes(path.read_bytes())[:25]][k % 4])
    results, _ = all_cases(directory)
    assert results == warm[1]


def test_plans_under_other_names_are_none(warm, tmp_path):
    directory = copied(warm, tmp_path)
    found = files(directory)
    texts = [path.read_bytes() for path in found]
    for path, text in zip(found, texts[1:] + texts[:1], strict=True):
        path.write_bytes(text)
    assert all_cases(directory)[0] == warm[1]


def test_kernels_that_are_gone_or_damaged_are_made_again(warm, tmp_path):
    directory = copied(warm, tmp_path)
    for entry in directory.iterdir():
        if cache.KEY.fullmatch(entry.name) and json.loads((entry / "meta.json").read_text())["name"][:6] != "elemc_":
            shutil.rmtree(entry)
    assert all_cases(directory)[0] == warm[1]


SMALL = """\
import sys
import numpy as np
import elemc as ec
x, y = ec.vector("x"), ec.vector("y")
f = ec.function([x, y], x * y + 1, name="small")
def show(*args, **named):
    got = f(*args, **named)
    print(got.dtype, got.shape, got.tobytes().hex(), "compiled" if "elemc.schedule" in sys.modules else "")
"""


def small(directory, rest):
    return run(SMALL + rest, directory).splitlines()


def shown(x, y):
    """What SMALL shows of these operands, by NumPy."""
    want = np.multiply(x, y, dtype=float) + 1
    return f"{want.dtype} {want.shape} {want.tobytes().hex()} "


def test_other_kinds_of_calls(tmp_path):
    def show(x, y):
        return small(tmp_path, f"show({x}, {y})\n")[0]

    nine = "np.arange(9.0)"
    assert show(nine, nine) == shown(np.arange(9.0), np.arange(9.0)) + "compiled"
    for x, y, planned in ((nine, nine, True), ("np.arange(10.0)", "np.arange(10.0)", True),
                          (nine, "np.arange(1.0)", False), ("np.arange(1.0)", "np.arange(1.0)", False),
                          ("np.arange(0.0)", "np.arange(0.0)", True), ("np.arange(9)", nine, False),
                          ("np.arange(9, dtype='f4')", "np.arange(9, dtype='f4')", False),
                          ("np.arange(18.0)[::2]", "np.arange(9.0)[::-1]", False)):
        got = show(x, y)
        assert got.removesuffix("compiled") == shown(*(eval(operand) for operand in (x, y)))
        assert not (planned and got.endswith("compiled")), (x, y)


def test_what_is_asked_of_a_function_after_a_plan_served_it(tmp_path):
    script = """
a = np.arange(9.0)
show(a, a)
print(f.signature, f.__doc__ == f._document())
print(f.types, len(f.specializations), f.specializations)
print(f.dump(a, a))
print([str(s.kernel.entry) for s in f.specializations], f._hits >= 0)
import pickle
print(pickle.loads(pickle.dumps(f))(a, a))
"""
    cold, warm = small(tmp_path, script), small(tmp_path, script)
    assert cold[0].endswith("compiled") and not warm[0].endswith("compiled")
    assert cold[1:] == warm[1:]
    assert "-> (float64[1])" in warm[1] and warm[2].startswith("['dd->d'] 1 ")


def test_errors_are_the_same(tmp_path):
    script = """
a = np.arange(9.0)
i, j = ec.array("i", 1, dtype="int64"), ec.array("j", 1, dtype="int64")
g = ec.function([i, j], i ** j)
g(np.arange(4), np.arange(4))
try:
    show(a, a)
    assert not LAST or "elemc.schedule" not in sys.modules
    for wrong in (lambda: f(a), lambda: f(a, a, a), lambda: f(a, a[:3]), lambda: f(a, "x"),
                  lambda: f(a, a, out=a[:3]), lambda: f(a, a + 1j), lambda: f(a, a, where=3),
                  lambda: f(a, a, req="nonsense"), lambda: g(np.arange(4), -np.arange(4))):
        try:
            print("no error", wrong())
        except Exception as error:
            print(type(error).__name__, error, getattr(error, "__notes__", None))
finally:
    print(f(a, a, out=a), f(a[::-1], a, out=a), f(a, a, where=a > 3), f(a, a, req="null"))
"""
    cold = small(tmp_path, script.replace("LAST", "False"))
    warm = small(tmp_path, script.replace("LAST", "True"))
    assert cold[0].split()[:3] == warm[0].split()[:3] and cold[1:] == warm[1:]
    assert "DomainError" in warm[9]


def test_another_compiler_or_package_has_other_plans(monkeypatch):
    x = ec.vector("x")
    f = ec.function([x], x + 1)
    identity = plans.compiler()
    places = {plans.place_of(f, identity), plans.place_of(f, identity + "another")}
    with monkeypatch.context() as other:
        other.setattr(plans, "STAMP", "another")
        assert len(places | {plans.place_of(f, identity)}) == 3
        other.setattr(plans, "STAMP", None)
        assert plans.place_of(f, identity) is None
    monkeypatch.setenv("ELEMC_CFLAGS", "-Ofast")
    assert plans.compiler() is None and plans.place_of(f, None) is None


def test_a_package_that_changed_meanwhile_keeps_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("ELEMC_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(plans, "stamp_now", lambda: "another")
    x = ec.vector("x")
    ec.function([x], x + 1)(np.arange(3.0))
    assert not files(tmp_path)


def test_files_that_changed_since_the_import_stand_for_nothing(monkeypatch):
    assert templating.stamp_now() == templating.stamp_now() is not None
    monkeypatch.setattr(templating, "BEGAN", os.stat(templating.__file__).st_ctime - 1)
    assert templating.stamp_now() is None


def test_the_shelves_are_bounded(monkeypatch, tmp_path):
    monkeypatch.setenv("ELEMC_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(plans, "SHELF", 3)
    plan = plans.Plan((), "k", "c", "e", False, b"", (), (), (), b"")
    for k in range(7):
        place = f"plans/ab/ab{k}"
        KEEP(place, ((), ()), b"key", plan)
        os.utime(tmp_path / place, (k, k))
    assert sorted(path.name for path in files(tmp_path)) == ["ab4", "ab5", "ab6"]
    for k in range(plans.CALLS + 5):
        KEEP("plans/ab/ab9", ((), ()), b"%d" % k, plan)
        KEEP("plans/ab/ab9", ((), ()), b"%d" % k, plan._replace(code=b"new"))
    held = HELD("plans/ab/ab9")[1]
    assert len(held) == plans.CALLS and all(p.code == b"new" for (p,) in held.values())
    cache.clear()
    assert not files(tmp_path)


def places(*made):
    return [plans.place_of(f, "compiler") for f in made]


def test_equal_functions_have_equal_places_and_others_others():
    def make(names="xy", op=lambda x, y: x * y + 1, dtype="float64", **options):
        x, y = (ec.array(n, 1, dtype=dtype) for n in names)
        return ec.function([x, y], op(x, y), **options)

    def captured(*values):
        return make(op=lambda x, y: x * np.array(values) + y)

    assert len(set(places(make(), make(), make()))) == 1
    assert len(set(places(captured(1.0, 2.0), captured(1.0, 2.0)))) == 1
    others = places(
        make(), make("yx"), make(dtype="float32"), make(order="c"), make(name="g"),
        make(contract=True), make(reassociate=True), make(op=lambda x, y: y * x + 1),
        make(op=lambda x, y: x * y + 1.0), make(op=lambda x, y: x * y - 1),
        make(op=lambda x, y: x * y + 0.0), make(op=lambda x, y: x * y + -0.0),
        make(op=lambda x, y: [x * y + 1]*2), make(op=lambda x, y: x[1:] * y[:-1]),
        make(op=lambda x, y: x[1:] * y[1:]), make(op=lambda x, y: x.sum() + y),
        make(op=lambda x, y: x.max() + y), make(op=lambda x, y: x.var() + y),
        make(op=lambda x, y: x.var(ddof=1) + y), make(op=lambda x, y: ec.cumsum(x) + y),
        captured(1.0, 2.0), captured(2.0, 1.0), captured(1, 2), captured([1.0], [2.0]))
    assert None not in others and len(set(others)) == len(others)


def test_gradients_are_known_by_what_they_fold():
    def gradient(cost):
        x = ec.vector("x")
        return ec.function([x], ec.grad(cost(x), x))

    def scaled(scale):
        acc = ec.Accumulator("mine", 0.0, lambda a, v: a + v / scale, merge=np.add)
        return lambda x: ec.accumulate(acc, x) ** 2

    costs = (lambda x: x.sum() ** 2, lambda x: x.prod(), lambda x: x.max() ** 2,
             lambda x: x.min() ** 2, lambda x: ec.cumsum(x).prod(), scaled(2.0), scaled(3.0))
    found = places(*map(gradient, costs))
    assert None not in found and len({*found}) == len(costs)
    assert places(*map(gradient, costs)) == found


def accumulated(combine, **options):
    x = ec.vector("x")
    acc = ec.Accumulator("mine", 0.0, combine, **options)
    return ec.function([x], ec.accumulate(acc, x))


SCALE = 2.0


def test_functions_of_accumulators_are_known_by_their_code():
    def scaled(scale):
        return lambda a, v: a + scale * v

    def by_default(a, v, scale=SCALE):
        return a + scale * v

    def by_global(a, v):
        return a + SCALE * v

    one, again = places(accumulated(scaled(1.0)), accumulated(scaled(1.0)))
    assert one is not None and one == again
    different = places(
        accumulated(scaled(1.0)), accumulated(scaled(2.0)), accumulated(by_default),
        accumulated(by_global), accumulated(lambda a, v: a + v), accumulated(lambda a, v: a * v),
        accumulated(lambda a, v: np.maximum(a, v)), accumulated(lambda a, v: np.minimum(a, v)),
        accumulated(np.maximum), accumulated(np.minimum),
        accumulated(lambda a, v: a + v, merge=lambda a, b: a + b),
        accumulated(lambda a, v: a + v, finish=lambda a: -a))
    assert None not in different and len(set(different)) == len(different)
    globals_of_this = places(accumulated(by_global))
    try:
        globals()["SCALE"] = 3.0
        assert places(accumulated(by_global)) != globals_of_this
    finally:
        globals()["SCALE"] = 2.0


def test_what_cannot_be_written_down_has_no_plan():
    class Scale:
        value = 2.0

    scale = Scale()
    table = np.ones(3)
    x = ec.vector("x")
    large = ec.array("x", 1, dtype="float64")
    made = [accumulated(lambda a, v: a + scale.value * v), accumulated(lambda a, v: a + table[0] * v),
            ec.function([large], large * np.zeros(200_000))]
    assert places(*made) == [None] * 3
    assert ec.function([x], x + 1)(np.ones(2)).tolist() == [2.0, 2.0]


def test_in_one_process(monkeypatch, tmp_path):
    monkeypatch.setattr(plans, "held", HELD)
    monkeypatch.setattr(plans, "keep", KEEP)
    monkeypatch.setenv("ELEMC_CACHE_DIR", str(tmp_path))
    x, y = ec.array("x", 1, dtype="int64"), ec.array("y", 1, dtype="int64")
    a = np.arange(6)

    def make():
        return ec.function([x, y], x ** y, name="power")

    f = make()
    assert not f._plans and f._call(a, a).tolist() == (a ** a).tolist()
    g = make()
    assert g._plans and not g._closed and g(a, a).tolist() == (a ** a).tolist()
    assert g._hits == 1 and not g._closed
    with pytest.raises(DomainError) as caught:
        g(a, -a)
    with pytest.raises(DomainError) as expected:
        f(a, -a)
    assert str(caught.value) == str(expected.value)
    with pytest.raises(ArgumentError):
        make()(a, a, nonsense=1)
    h = make()
    with monkeypatch.context() as changed:
        changed.setenv("ELEMC_CFLAGS", "-O1")
        assert h(a, a).tolist() == (a ** a).tolist() and h._closed
    assert [s.source.text for s in make().specializations] == []
    served = make()
    served(a, a)
    assert [s.source.text for s in served.specializations] == [
        s.source.text for s in f.specializations]
