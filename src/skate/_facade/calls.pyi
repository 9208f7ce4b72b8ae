"""What type checkers know of `.remote(...)`.

`RemoteFunction[P, R]` and `ActorMethod[P, R]` have an attribute `remote`, which is a `RemoteCall`
of a callable with the user's own parameters `P`, names and defaults included, that returns what
the call gives at once:

    what was decorated                     what `.remote(...)` returns
    def f(...) -> R                        ObjectRef[R]
    async def method(self, ...) -> R       ObjectRef[R]
    def f(...) -> Iterator[R]              ObjectRefGenerator[R]
    async def f(...) -> AsyncIterator[R]   ObjectRefGenerator[R]
    with num_returns=0, 2 and more         None, list[ObjectRef[Any]]
    class A                                ActorHandle[A]: its methods take and return anything
    class A(skate.Actor)                   A: its methods under @skate.method are checked

A reference is accepted where a value is. No type variable stands for "these parameters, each of
them or a reference to it"; so there is an overload for each position of the *last* reference
among the arguments: those before it are values or references, those after it are values. A
reference that is given by keyword needs a cast, as no overload can say it.

Overloads that overlap are meant: the first that fits is the most special one.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial
from types import CodeType
from typing import Any, Concatenate, Final, Generic, Protocol, final, overload

from typing_extensions import ParamSpec, TypeVar, Unpack

from skate._core.refs import DynamicObjectRefGenerator, ObjectRef, ObjectRefGenerator
from skate._facade.actor import Actor, ActorClass
from skate._facade.actor_handle import ActorHandle, ActorMethod
from skate._facade.option_keywords import ActorKeywords
from skate._facade.remote import RemoteFunction

MYPY: Final = False  # mypy takes it for True

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
C = TypeVar("C")
C_co = TypeVar("C_co", covariant=True)
A = TypeVar("A", bound=Actor)
Self_ = TypeVar("Self_")
Out = TypeVar("Out")
O_co = TypeVar("O_co", covariant=True)
Out_co = TypeVar("Out_co", covariant=True, default=ObjectRef[R_co])
Maker_co = TypeVar("Maker_co", covariant=True, default=Callable[..., Any])
T0 = TypeVar("T0")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")
T5 = TypeVar("T5")
T6 = TypeVar("T6")
T7 = TypeVar("T7")
T8 = TypeVar("T8")
T9 = TypeVar("T9")

# -- calls --------------------------------------------------------------------------------------

class RemoteCall(Generic[R_co]):
    """`f.remote`, where `R_co` is a callable with the parameters of `f` and what it returns."""

    # fmt: off
    @overload
    def __call__(self: RemoteCall[Callable[P, Out]], *args: P.args, **kwargs: P.kwargs) -> Out: ...
    @overload
    def __call__(
        self: RemoteCall[Callable[Concatenate[T0, Q], Out]],
        a0: ObjectRef[T0], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> Out: ...
    @overload
    def __call__(
        self: RemoteCall[Callable[Concatenate[T0, T1, Q], Out]],
        a0: T0 | ObjectRef[T0], a1: ObjectRef[T1], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> Out: ...
    @overload
    def __call__(
        self: RemoteCall[Callable[Concatenate[T0, T1, T2, Q], Out]],
        a0: T0 | ObjectRef[T0], a1: T1 | ObjectRef[T1], a2: ObjectRef[T2], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> Out: ...
    @overload
    def __call__(
        self: RemoteCall[Callable[Concatenate[T0, T1, T2, T3, Q], Out]],
        a0: T0 | ObjectRef[T0], a1: T1 | ObjectRef[T1], a2: T2 | ObjectRef[T2],
        a3: ObjectRef[T3], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> Out: ...
    @overload
    def __call__(
        self: RemoteCall[Callable[Concatenate[T0, T1, T2, T3, T4, Q], Out]],
        a0: T0 | ObjectRef[T0], a1: T1 | ObjectRef[T1], a2: T2 | ObjectRef[T2],
        a3: T3 | ObjectRef[T3], a4: ObjectRef[T4], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> Out: ...
    @overload
    def __call__(
        self: RemoteCall[Callable[Concatenate[T0, T1, T2, T3, T4, T5, Q], Out]],
        a0: T0 | ObjectRef[T0], a1: T1 | ObjectRef[T1], a2: T2 | ObjectRef[T2],
        a3: T3 | ObjectRef[T3], a4: T4 | ObjectRef[T4], a5: ObjectRef[T5], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> Out: ...
    @overload
    def __call__(
        self: RemoteCall[Callable[Concatenate[T0, T1, T2, T3, T4, T5, T6, Q], Out]],
        a0: T0 | ObjectRef[T0], a1: T1 | ObjectRef[T1], a2: T2 | ObjectRef[T2],
        a3: T3 | ObjectRef[T3], a4: T4 | ObjectRef[T4], a5: T5 | ObjectRef[T5],
        a6: ObjectRef[T6], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> Out: ...
    @overload
    def __call__(
        self: RemoteCall[Callable[Concatenate[T0, T1, T2, T3, T4, T5, T6, T7, Q], Out]],
        a0: T0 | ObjectRef[T0], a1: T1 | ObjectRef[T1], a2: T2 | ObjectRef[T2],
        a3: T3 | ObjectRef[T3], a4: T4 | ObjectRef[T4], a5: T5 | ObjectRef[T5],
        a6: T6 | ObjectRef[T6], a7: ObjectRef[T7], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> Out: ...
    @overload
    def __call__(
        self: RemoteCall[Callable[Concatenate[T0, T1, T2, T3, T4, T5, T6, T7, T8, Q], Out]],
        a0: T0 | ObjectRef[T0], a1: T1 | ObjectRef[T1], a2: T2 | ObjectRef[T2],
        a3: T3 | ObjectRef[T3], a4: T4 | ObjectRef[T4], a5: T5 | ObjectRef[T5],
        a6: T6 | ObjectRef[T6], a7: T7 | ObjectRef[T7], a8: ObjectRef[T8], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> Out: ...
    @overload
    def __call__(
        self: RemoteCall[Callable[Concatenate[T0, T1, T2, T3, T4, T5, T6, T7, T8, T9, Q], Out]],
        a0: T0 | ObjectRef[T0], a1: T1 | ObjectRef[T1], a2: T2 | ObjectRef[T2],
        a3: T3 | ObjectRef[T3], a4: T4 | ObjectRef[T4], a5: T5 | ObjectRef[T5],
        a6: T6 | ObjectRef[T6], a7: T7 | ObjectRef[T7], a8: T8 | ObjectRef[T8],
        a9: ObjectRef[T9], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> Out: ...
    # fmt: on

class ActorCall(Generic[R_co]):
    """`A.remote`, where `R_co` is the class `A`, or a callable that makes one."""

    # fmt: off
    @overload
    def __call__(
        self: ActorCall[Callable[P, Out]], *args: P.args, **kwargs: P.kwargs
    ) -> ActorHandle[Out]: ...
    @overload
    def __call__(
        self: ActorCall[Callable[Concatenate[T0, Q], Out]],
        a0: ObjectRef[T0], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> ActorHandle[Out]: ...
    @overload
    def __call__(
        self: ActorCall[Callable[Concatenate[T0, T1, Q], Out]],
        a0: T0 | ObjectRef[T0], a1: ObjectRef[T1], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> ActorHandle[Out]: ...
    @overload
    def __call__(
        self: ActorCall[Callable[Concatenate[T0, T1, T2, Q], Out]],
        a0: T0 | ObjectRef[T0], a1: T1 | ObjectRef[T1], a2: ObjectRef[T2], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> ActorHandle[Out]: ...
    @overload
    def __call__(
        self: ActorCall[Callable[Concatenate[T0, T1, T2, T3, Q], Out]],
        a0: T0 | ObjectRef[T0], a1: T1 | ObjectRef[T1], a2: T2 | ObjectRef[T2],
        a3: ObjectRef[T3], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> ActorHandle[Out]: ...
    @overload
    def __call__(
        self: ActorCall[Callable[Concatenate[T0, T1, T2, T3, T4, Q], Out]],
        a0: T0 | ObjectRef[T0], a1: T1 | ObjectRef[T1], a2: T2 | ObjectRef[T2],
        a3: T3 | ObjectRef[T3], a4: ObjectRef[T4], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> ActorHandle[Out]: ...
    @overload
    def __call__(
        self: ActorCall[Callable[Concatenate[T0, T1, T2, T3, T4, T5, Q], Out]],
        a0: T0 | ObjectRef[T0], a1: T1 | ObjectRef[T1], a2: T2 | ObjectRef[T2],
        a3: T3 | ObjectRef[T3], a4: T4 | ObjectRef[T4], a5: ObjectRef[T5], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> ActorHandle[Out]: ...
    @overload
    def __call__(
        self: ActorCall[Callable[Concatenate[T0, T1, T2, T3, T4, T5, T6, Q], Out]],
        a0: T0 | ObjectRef[T0], a1: T1 | ObjectRef[T1], a2: T2 | ObjectRef[T2],
        a3: T3 | ObjectRef[T3], a4: T4 | ObjectRef[T4], a5: T5 | ObjectRef[T5],
        a6: ObjectRef[T6], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> ActorHandle[Out]: ...
    @overload
    def __call__(
        self: ActorCall[Callable[Concatenate[T0, T1, T2, T3, T4, T5, T6, T7, Q], Out]],
        a0: T0 | ObjectRef[T0], a1: T1 | ObjectRef[T1], a2: T2 | ObjectRef[T2],
        a3: T3 | ObjectRef[T3], a4: T4 | ObjectRef[T4], a5: T5 | ObjectRef[T5],
        a6: T6 | ObjectRef[T6], a7: ObjectRef[T7], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> ActorHandle[Out]: ...
    @overload
    def __call__(
        self: ActorCall[Callable[Concatenate[T0, T1, T2, T3, T4, T5, T6, T7, T8, Q], Out]],
        a0: T0 | ObjectRef[T0], a1: T1 | ObjectRef[T1], a2: T2 | ObjectRef[T2],
        a3: T3 | ObjectRef[T3], a4: T4 | ObjectRef[T4], a5: T5 | ObjectRef[T5],
        a6: T6 | ObjectRef[T6], a7: T7 | ObjectRef[T7], a8: ObjectRef[T8], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> ActorHandle[Out]: ...
    @overload
    def __call__(
        self: ActorCall[Callable[Concatenate[T0, T1, T2, T3, T4, T5, T6, T7, T8, T9, Q], Out]],
        a0: T0 | ObjectRef[T0], a1: T1 | ObjectRef[T1], a2: T2 | ObjectRef[T2],
        a3: T3 | ObjectRef[T3], a4: T4 | ObjectRef[T4], a5: T5 | ObjectRef[T5],
        a6: T6 | ObjectRef[T6], a7: T7 | ObjectRef[T7], a8: T8 | ObjectRef[T8],
        a9: ObjectRef[T9], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> ActorHandle[Out]: ...
    # fmt: on

class RemoteCallable(Generic[P, R_co, Out_co]):
    remote: RemoteCall[Callable[P, Out_co]]

class ActorMaker(Generic[C_co, Maker_co]):
    remote: ActorCall[Maker_co]

class ActorTyped(Generic[C_co]): ...

# -- functions ----------------------------------------------------------------------------------

@final
class Unannotated:
    """What a function returns of which nothing is known: only `Any` is assignable to it."""

class Function(Protocol[P, R_co]):
    """A function, and no class."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @property
    def __code__(self) -> CodeType: ...

class Class(Protocol[P, R_co]):
    """A class, and no function."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    def mro(self) -> list[type]: ...

class FunctionDecorator(Protocol):
    """`remote(...)` with options that only functions have."""

    if not MYPY:
        @overload
        def __call__(
            self, target: Function[P, Unannotated], /
        ) -> RemoteFunction[P, Any, ObjectRef[Any]]: ...
    @overload
    def __call__(
        self, target: Function[P, AsyncIterator[R]], /
    ) -> RemoteFunction[P, AsyncIterator[R], ObjectRefGenerator[R]]: ...
    @overload
    def __call__(
        self, target: Function[P, Iterator[R]], /
    ) -> RemoteFunction[P, Iterator[R], ObjectRefGenerator[R]]: ...
    @overload
    def __call__(self, target: Function[P, R], /) -> RemoteFunction[P, R, ObjectRef[R]]: ...

class ClassDecorator(Protocol):
    """`remote(...)` with options that only classes have."""

    @overload
    def __call__(self, target: type[A], /) -> type[A]: ...
    if not MYPY:
        @overload
        def __call__(self, target: type[C], /) -> ActorClass[C, type[C]]: ...
    @overload
    def __call__(self, target: Class[P, C], /) -> ActorClass[C, Callable[P, C]]: ...

class Decorator(Protocol):
    """`remote(...)` with options that functions and classes have."""

    @overload
    def __call__(self, target: type[A], /) -> type[A]: ...
    if not MYPY:
        @overload
        def __call__(self, target: type[C], /) -> ActorClass[C, type[C]]: ...
    @overload
    def __call__(self, target: partial[R], /) -> RemoteFunction[..., R, ObjectRef[R]]: ...
    if not MYPY:
        @overload
        def __call__(
            self, target: Function[P, Unannotated], /
        ) -> RemoteFunction[P, Any, ObjectRef[Any]]: ...
    @overload
    def __call__(
        self, target: Function[P, AsyncIterator[R]], /
    ) -> RemoteFunction[P, AsyncIterator[R], ObjectRefGenerator[R]]: ...
    @overload
    def __call__(
        self, target: Function[P, Iterator[R]], /
    ) -> RemoteFunction[P, Iterator[R], ObjectRefGenerator[R]]: ...
    @overload
    def __call__(self, target: Function[P, R], /) -> RemoteFunction[P, R, ObjectRef[R]]: ...
    @overload
    def __call__(self, target: Class[P, C], /) -> ActorClass[C, Callable[P, C]]: ...

class DecoratorOf(Protocol[O_co]):
    """`remote(num_returns=...)`, where the number says what a call returns."""

    def __call__(self, target: Callable[P, R], /) -> RemoteFunction[P, R, O_co]: ...

class DynamicDecorator(Protocol):
    """`remote(num_returns="dynamic")`."""

    def __call__(
        self, target: Callable[P, Iterator[R]], /
    ) -> RemoteFunction[P, Iterator[R], ObjectRef[DynamicObjectRefGenerator[R]]]: ...

# -- methods ------------------------------------------------------------------------------------

class OwnMethod(ActorMethod[P, R_co, Out_co]):
    """A method under `@method`: its own class calls it, others call its `remote`."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

class Method(Generic[Self_, P, R_co, Out_co]):
    """What `@method` makes of a function in a class."""

    @overload
    def __get__(
        self, instance: None, owner: type[Self_], /
    ) -> Callable[Concatenate[Self_, P], R_co]: ...
    @overload
    def __get__(
        self, instance: Self_, owner: type[Self_] | None = None, /
    ) -> OwnMethod[P, R_co, Out_co]: ...

class MethodDecorator(Protocol):
    """`method`, and `method(...)` with options."""

    if not MYPY:
        @overload
        def __call__(
            self, function: Callable[Concatenate[Self_, P], Unannotated], /
        ) -> Method[Self_, P, Any, Any]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Self_, P], AsyncIterator[R]], /
    ) -> Method[Self_, P, AsyncIterator[R], ObjectRefGenerator[R]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Self_, P], Iterator[R]], /
    ) -> Method[Self_, P, Iterator[R], ObjectRefGenerator[R]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Self_, P], Coroutine[Any, Any, R]], /
    ) -> Method[Self_, P, Coroutine[Any, Any, R], ObjectRef[R]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Self_, P], R], /
    ) -> Method[Self_, P, R, ObjectRef[R]]: ...

class MethodDecoratorOf(Protocol[O_co]):
    """`method(num_returns=...)`, where the number says what a call returns."""

    def __call__(
        self, function: Callable[Concatenate[Self_, P], R], /
    ) -> Method[Self_, P, R, O_co]: ...

# -- classes whose handles are typed ------------------------------------------------------------

class TypedActorClass(Generic[P, C_co]):
    """What `options` makes of a class that derives from `Actor`."""

    remote: RemoteCall[Callable[P, C_co]]
    def options(self, **options: Unpack[ActorKeywords]) -> TypedActorClass[P, C_co]: ...
    def bind(self, *args: Any, **kwargs: Any) -> Any: ...

class TypedActor:
    """What a class that derives from `Actor` has, and its handles."""

    # fmt: off
    @overload
    @classmethod
    def remote(cls: Callable[P, Out], *args: P.args, **kwargs: P.kwargs) -> Out: ...
    @overload
    @classmethod
    def remote(
        cls: Callable[Concatenate[T0, Q], Out],
        a0: ObjectRef[T0], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> Out: ...
    @overload
    @classmethod
    def remote(
        cls: Callable[Concatenate[T0, T1, Q], Out],
        a0: T0 | ObjectRef[T0], a1: ObjectRef[T1], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> Out: ...
    @overload
    @classmethod
    def remote(
        cls: Callable[Concatenate[T0, T1, T2, Q], Out],
        a0: T0 | ObjectRef[T0], a1: T1 | ObjectRef[T1], a2: ObjectRef[T2], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> Out: ...
    @overload
    @classmethod
    def remote(
        cls: Callable[Concatenate[T0, T1, T2, T3, Q], Out],
        a0: T0 | ObjectRef[T0], a1: T1 | ObjectRef[T1], a2: T2 | ObjectRef[T2],
        a3: ObjectRef[T3], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> Out: ...
    @overload
    @classmethod
    def remote(
        cls: Callable[Concatenate[T0, T1, T2, T3, T4, Q], Out],
        a0: T0 | ObjectRef[T0], a1: T1 | ObjectRef[T1], a2: T2 | ObjectRef[T2],
        a3: T3 | ObjectRef[T3], a4: ObjectRef[T4], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> Out: ...
    @overload
    @classmethod
    def remote(
        cls: Callable[Concatenate[T0, T1, T2, T3, T4, T5, Q], Out],
        a0: T0 | ObjectRef[T0], a1: T1 | ObjectRef[T1], a2: T2 | ObjectRef[T2],
        a3: T3 | ObjectRef[T3], a4: T4 | ObjectRef[T4], a5: ObjectRef[T5], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> Out: ...
    @overload
    @classmethod
    def remote(
        cls: Callable[Concatenate[T0, T1, T2, T3, T4, T5, T6, Q], Out],
        a0: T0 | ObjectRef[T0], a1: T1 | ObjectRef[T1], a2: T2 | ObjectRef[T2],
        a3: T3 | ObjectRef[T3], a4: T4 | ObjectRef[T4], a5: T5 | ObjectRef[T5],
        a6: ObjectRef[T6], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> Out: ...
    @overload
    @classmethod
    def remote(
        cls: Callable[Concatenate[T0, T1, T2, T3, T4, T5, T6, T7, Q], Out],
        a0: T0 | ObjectRef[T0], a1: T1 | ObjectRef[T1], a2: T2 | ObjectRef[T2],
        a3: T3 | ObjectRef[T3], a4: T4 | ObjectRef[T4], a5: T5 | ObjectRef[T5],
        a6: T6 | ObjectRef[T6], a7: ObjectRef[T7], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> Out: ...
    @overload
    @classmethod
    def remote(
        cls: Callable[Concatenate[T0, T1, T2, T3, T4, T5, T6, T7, T8, Q], Out],
        a0: T0 | ObjectRef[T0], a1: T1 | ObjectRef[T1], a2: T2 | ObjectRef[T2],
        a3: T3 | ObjectRef[T3], a4: T4 | ObjectRef[T4], a5: T5 | ObjectRef[T5],
        a6: T6 | ObjectRef[T6], a7: T7 | ObjectRef[T7], a8: ObjectRef[T8], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> Out: ...
    @overload
    @classmethod
    def remote(
        cls: Callable[Concatenate[T0, T1, T2, T3, T4, T5, T6, T7, T8, T9, Q], Out],
        a0: T0 | ObjectRef[T0], a1: T1 | ObjectRef[T1], a2: T2 | ObjectRef[T2],
        a3: T3 | ObjectRef[T3], a4: T4 | ObjectRef[T4], a5: T5 | ObjectRef[T5],
        a6: T6 | ObjectRef[T6], a7: T7 | ObjectRef[T7], a8: T8 | ObjectRef[T8],
        a9: ObjectRef[T9], /,
        *args: Q.args, **kwargs: Q.kwargs,
    ) -> Out: ...
    # fmt: on
    @classmethod
    def options(
        cls: Callable[P, C], **options: Unpack[ActorKeywords]
    ) -> TypedActorClass[P, C]: ...
    @classmethod
    def bind(cls, *args: Any, **kwargs: Any) -> Any: ...
    @property
    def __ray_ready__(self) -> ActorMethod[[], bool]: ...
    @property
    def __ray_terminate__(self) -> ActorMethod[[], None]: ...
    @property
    def __ray_call__(self) -> ActorMethod[..., Any]: ...
