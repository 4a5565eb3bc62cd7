"""Expressions as text: what they mean, where errors point, and that nothing is evaluated."""

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import elemc as ec
from elemc.errors import ArgumentError, DtypeError, ElemcError, ExpressionError
from elemc.parse import parse, parse_spec
from elemc.parse_names import FUNCTIONS

from .helpers import quiet, sample

X, Y = sample("float64", (3, 4), 1, (0.1, 3)), sample("float64", 4, 2, (0.1, 3))
ARGS = {"x": "float64[2]", "y": "float64[1]"}
SCOPE = {"x": X, "y": Y, "pi": np.pi, "e": np.e, "float32": np.float32,
         "abs": abs, "len": len, **{n: getattr(np, n) for n in FUNCTIONS
                                    if hasattr(np, n) and n not in ("abs", "len", "round")}}


def evaluate(text, **arrays):
    args = {n: f"{a.dtype}[{a.ndim}]" for n, a in arrays.items()}
    inputs, outputs = parse(text, args)
    return ec.function(inputs, outputs)(**arrays)


def message(text, error=ExpressionError, args=None):
    with pytest.raises(error) as caught:
        parse(text, args)
    return str(caught.value)


@pytest.mark.parametrize("text", """
x + y*2 - x/y**2;-x + +y;abs(-x) // y;x % y;x ** 2;2 ** x;x > y;x != y;(x > 1) & (y < 2) | (x == y)
(x > 1) ^ ~(y < 2);exp(x) * sum(y, axis=-1);maximum(x, y);where(x > y, x, 0);clip(x, 0.5, None)
x.sum(axis=0);x.mean(axis=(0, 1), keepdims=True) * x;var(x, axis=1, ddof=1);x.std();any(x > 2, axis=0)
argmax(x, axis=1);min(x, initial=0.2);sum(x, where=x > 1);x.T;x.T @ x;dot(x, y);outer(y, y)
einsum("ij,j->i", x, y);x[:, None] * y;x[1:, ::-1];x[-1];x[..., 0];x.shape[0] * x;x.size * y
transpose(x) + 1;swapaxes(x, 0, 1);expand_dims(y, 0);moveaxis(x, 0, 1);squeeze(y[None], axis=0)
flip(x, 1);x.astype("float32");astype(x, float32) * y;zeros_like(x) + y;full_like(x, 3);x * [1, 2, 3, 4]
x + [[1], [2], [3]];x * pi + e;x * 1e3;x + (2 + 3j);x * (7 // 2 + 2 ** 3 % 5);len(x) * y;x.real - y.imag
tensordot(x, y, 1);x.transpose((1, 0));x.transpose(1, 0);logaddexp(x, y);hypot(x, y);matmul(x, y)
x * 18446744073709551615;x * -9223372036854775808;x + True;count_nonzero(x > 1);arctan2(x, y)
""".strip().replace("\n", ";").split(";"))
def test_means_what_it_means_in_numpy(text):
    got = evaluate(text, **used(text))
    want = quiet(eval, text, SCOPE)
    assert np.asarray(got).dtype == np.asarray(want).dtype
    np.testing.assert_allclose(got, want, rtol=1e-12 if got.dtype != np.float32 else 1e-5)


def used(text):
    """Those of x and y that the text names."""
    return {n: a for n, a in (("x", X), ("y", Y)) if re.search(rf"\b{n}\b", text)}


def test_what_numpy_does_not_spell_so():
    np.testing.assert_allclose(evaluate("np.exp(x) + numpy.pi", x=X), np.exp(X) + np.pi)
    np.testing.assert_allclose(evaluate("ec.erf(x)", x=X), ec.erf(X))
    np.testing.assert_allclose(evaluate("logsumexp(x, axis=1)", x=X),
                               np.log(np.exp(X).sum(axis=1)))
    np.testing.assert_allclose(evaluate("norm(x, axis=0, ord=1)", x=X),
                               np.linalg.norm(X, axis=0, ord=1))
    np.testing.assert_array_equal(evaluate("align(x, 'c') * align(z, 'c')", x=X, z=Y[:3]),
                                  X * Y[:3, None])
    np.testing.assert_array_equal(evaluate("expand_to(y, x)", x=X, y=Y), np.broadcast_to(Y, (3, 4)))
    np.testing.assert_array_equal(evaluate("arange(x.shape[1]) * x[:, newaxis]", x=X),
                                  np.arange(4) * X[:, None])
    np.testing.assert_allclose(evaluate("round(x)", x=X), np.round(X))


def test_inputs_come_in_order_of_appearance():
    inputs, output = parse("where(b > a, sum(c), a) + z1[0]", {"c": "float32[3]"})
    assert [i.name for i in inputs] == ["b", "a", "c", "z1"]
    assert [i.ndim for i in inputs] == [1, 1, 3, 1]
    assert inputs[2].dtype == np.float32 and inputs[0].dtype == np.float64
    assert isinstance(output, ec.Array)


def test_a_declared_input_hides_a_constant_or_function():
    inputs, _ = parse("e * pi + exp(exp) + np", {"e": "int8[0]", "exp": "float32[1]",
                                                 "np": "bool[0]"})
    assert [i.name for i in inputs] == ["e", "exp", "np"]


def test_commas_make_several_outputs():
    _, outputs = parse("x + y, x.sum()")
    assert isinstance(outputs, list) and [o.ndim for o in outputs] == [1, 0]
    assert isinstance(parse("x,")[1], list)


def test_dtypes_follow_numpy():
    assert parse("x * 2 ** 3 / 4", {"x": "float32[1]"})[1].dtype == np.float32
    assert parse("x * exp(1)", {"x": "float32[1]"})[1].dtype == np.float64
    assert parse("x + 1", {"x": "int8[1]"})[1].dtype == np.int8
    assert parse("x * True", {"x": "int8[1]"})[1].dtype == np.int8


def test_long_chains_and_lines():
    assert len(parse("+".join(["x"] * 2000))[0]) == 1
    assert len(parse("(x\n  + y\n)")[0]) == 2
    assert "there is no function 'epx'" in message("(x +\n  é * epx(y))")
    assert message("(x +\n  é * epx(y))").endswith("\n      é * epx(y))\n          ^")


@pytest.mark.parametrize(("spec", "want"), [
    ("float32[2]", ("float32", 2)), ("int8[0]", ("int8", 0)), ("bool[32]", ("bool", 32)),
    ("f4[1]", ("float32", 1))])
def test_spec(spec, want):
    dtype, rank = parse_spec(spec)
    assert (dtype.name, rank) == want


@pytest.mark.parametrize(("spec", "error", "say"), [
    ("float32", ArgumentError, "write float32"), ("float32[]", ArgumentError, "write float32"),
    ("float32[x]", ArgumentError, "write float32"), ("float32[33]", ArgumentError, "0 to 32"),
    ("float33[2]", DtypeError, "float33"), ("object[2]", DtypeError, "no dtype object"),
    ("[2]", ArgumentError, "write float32"), ("", ArgumentError, "write float32")])
def test_spec_errors(spec, error, say):
    with pytest.raises(error, match=say.replace("[", r"\[")):
        parse_spec(spec)
    with pytest.raises(error):
        parse("x", {"x": spec})


def test_unused_arguments_are_errors():
    assert message("x * y", ArgumentError, {"q": "float32[1]"}) == (
        "the expression has no input q; it has x, y")


@pytest.mark.parametrize(("text", "say", "column"), [
    ("x * epx(y)", "no function 'epx'; did you mean 'exp'?", 4),
    ("x.sun()", "no method 'sun'; did you mean 'sum'?", 0),
    ("x.shap[0]", "no attribute 'shap'; did you mean 'shape'?", 0),
    ("x if y else z", "where(condition, a, b)", 0),
    ("x and y", "& and |", 0), ("2 * (not x)", "~ of a condition", 5),
    ("x < y < z", "(a < b) & (b < c)", 0), ("x in y", "in and is", 0),
    ("x + (lambda: 1)", "functions of one's own", 5), ("[i for i in x]", "no part", 0),
    ("(y := x)", "no assignment", 1), ("f'{x}'", "formatted strings", 0),
    ("exp(*x)", "no unpacking", 4), ("exp(**x)", "no unpacking", 6), ("{1: x}", "dictionaries", 0),
    ("x * 'a'", "a string is no operand", 4), ("x * None", "None is no operand", 4),
    ("x * ...", "no operand", 4), ("x + b'a'", "no bytes", 4), ("x * x.shape", "x.shape[0]", 4),
    ("x * sum", "write sum(...)", 4), ("x * np", "np is no value", 4),
    ("x.sum * 2", "write .sum()", 0), ("(x, y) * 2", "a tuple is no operand", 0),
    ("x * [y, 1]", "arrays are not joined", 5),
    ("max(x, y)", "maximum(a, b)", 7), ("exp(x)(y)", "by their names", 0),
    ("x.shape[0.5]", "indexed", 0), ("x.shape[1]", "indexed", 0), ("3[0]", "indexed", 0),
    ("sum(x, y, z, x, y, z)", "too many positional arguments", 0),
    ("exp(x, axis=3)", "unexpected keyword argument 'axis'", 0),
    ("9 ** 9 ** 9", "64 bits", 0), ("x + (1 << 1000000000)", "64 bits", 5),
    ("x * 99999999999999999999", "64 bits", 4), ("x + -9223372036854775809", "64 bits", 4),
    ("x + 1 / 0", "division by zero", 4), ("x * 2.0 ** 9999", "out of range", 4),
    ("x + (1.5 | 2)", "unsupported operand", 5), ("~1.5", "bad operand type", 0),
    ("__class__", "no value", 0), ("x.__class__", "no attribute '__class__'", 0),
    ("np.pie", "did you mean 'pi'?", 0),
    ("x *", "invalid syntax", 3), ("z = x", "", None), ("(x", "never closed", 0),
    ("", "empty", None), ("   ", "empty", None), ("()", "nothing to compute", 0),
    ("x\0", "null byte", None), ("x" * 10001, "at most 10000", None),
    ("sqrt(" * 101 + "x" + ")" * 101, "deeper than 100", 38),
    ("-" * 9000 + "x", "nested too deep", None), ("x, " + "(" * 300 + "x" + ")" * 300, "nested", None),
])
def test_errors_point_at_the_place(text, say, column):
    got = message(text)
    assert say in got
    if column is not None:
        *_, caret = got.splitlines()
        assert caret == " " * (4 + column) + "^"


@pytest.mark.parametrize(("text", "error", "say"), [
    ("x.reshape(2)", "UnsupportedError", "x[:, None]"), ("sort(x)", "UnsupportedError", "max and min"),
    ("np.linalg.norm(x)", "UnsupportedError", "norm are there"),
    ("x + [[1, 2], [3]]", "ArgumentError", "a list is no array"),
    ("x[y]", "UnsupportedError", "gather"), ("x[1.5]", "UnsupportedError", "gather"),
    ("arange(3)", "UnsupportedError", "arange(x.shape[i])"), ("round(x, 2)", "ArgumentError", "round"),
    ("sum(x, axis=3)", "AxisError", "axis 3 is out of range"),
    ("sum(x, axis=1.5)", "AxisError", "not float"), ("sum(x, axis='0')", "AxisError", "not str"),
    ("x[0, 0]", "AxisError", "too many"), ("x & 1.5", "DtypeError", "bitwise_and"),
    ("x.astype('object')", "DtypeError", "object"), ("x.astype(3)", "DtypeError", "3"),
    ("exp(x, y)", "ArgumentError", "takes 1"), ("einsum('ij', x)", "ShapeError", "rank 1"),
    ("align(x, 'z')", "ArgumentError", "order"), ("x.astype('a,b')", "DtypeError", "a,b"),
])
def test_errors_of_operations_point_too(text, error, say):
    got = message(text, getattr(ec, error))
    assert say in got and got.endswith("^") and "(in the expression" not in got


def test_errors_when_called_name_the_expression():
    with pytest.raises(ec.ShapeError, match="the expression"):
        inputs, output = parse("x * y")
        ec.function(inputs, output)(np.ones(3), np.ones(4))


def test_nothing_is_evaluated(tmp_path):
    file = tmp_path / "made"
    for text in (f"__import__('pathlib').Path({str(file)!r}).touch()", f"open({str(file)!r}, 'w')",
                 f"eval(\"open({str(file)!r}, 'w')\")", "x.__class__.__base__.__subclasses__()",
                 "exp.__globals__", "np.load('a')", "ec.function([x], x)", "().__class__",
                 "x.node", "x.__array_ufunc__(1)", "''.join(['a'])", "'{0.node}'.format(x)",
                 "sum.__wrapped__", "x.T.node.dtype", "print(x)", "exit()"):
        message(text, ElemcError)
    assert not file.exists()


WORDS = ["x", "y", "2", "-1", "1.5", "exp", "sum", "where", "(", ")", "[", "]", ",", ".", ":", "+",
         "-", "*", "**", "/", "//", "@", "&", "<", "==", "~", "axis=", "keepdims=", "None", "True",
         "'ij,j->i'", "einsum", "T", "shape", "np", "not", "and", "if", "else", "lambda", "...",
         "0", "99999999999999999999", "flip", "clip", "dot", "squeeze", "transpose", "astype",
         "float32", "inf", "1j", "''", "min", "initial=", "tensordot", "expand_dims", "outer",
         "full_like", "length", "size", "ndim", "<<", "%", "=", "\n", "é", "#", ";", "\\", "moveaxis"]


@settings(max_examples=1500, deadline=None)
@given(st.one_of(st.text(max_size=30), st.lists(st.sampled_from(WORDS), max_size=12).map("".join),
                 st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)))
@example("x\f+\f)")
@example("\udcff")
def test_any_text_is_read_or_refused(text):
    try:
        inputs, outputs = parse(text)
    except ElemcError as error:
        assert str(error)
    else:
        for output in outputs if isinstance(outputs, list) else [outputs]:
            assert isinstance(output, ec.Array)


VALUES = st.recursive(
    st.sampled_from(["x", "y", "2", "1.5", "(-3)", "3j", "True", "x.shape", "None", "'a'", "(1, 0)",
                     "-1", "0", "float32", "[1, 2]", "inf", "x[0]", "x[:, None]"]),
    lambda v: st.one_of(
        st.tuples(v, st.sampled_from("+ - * / // % ** << >> & | ^ @ < ==".split()), v).map(
            lambda t: f"({' '.join(t)})"),
        st.tuples(st.sampled_from(sorted(FUNCTIONS)), st.lists(v, max_size=3)).map(
            lambda t: f"{t[0]}({', '.join(t[1])})"),
        st.tuples(st.sampled_from(["sum", "max", "mean", "astype", "squeeze", "clip", "dot"]), v, v,
                  st.sampled_from(["axis", "keepdims", "initial", "where", "dtype", "ddof"])).map(
            lambda t: f"{t[1]}.{t[0]}({t[3]}={t[2]})"),
        st.tuples(v, v).map(lambda t: f"{t[0]}[{t[1]}]")), max_leaves=6)


@settings(max_examples=1500, deadline=None)
@given(VALUES)
def test_any_call_is_read_or_refused(text):
    try:
        parse(text, {n: ARGS[n] for n in used(text)})
    except ElemcError as error:
        assert str(error)
