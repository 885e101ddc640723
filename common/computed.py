"""A property that is computed when it is first read."""

from functools import cached_property
from typing import Any, TypeVar, overload

T = TypeVar("T")


class computed(cached_property[T]):  # noqa: N801 - a decorator, like its base
    """A `cached_property` without a lock, as in Python 3.12: two threads may compute the same value.

    The lock would cost more time than most of the computations.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> "computed[T]": ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...
    def __get__(self, instance: object, owner: type[Any] | None = None) -> "computed[T] | T":
        """Returns the value, and stores it in the instance, where the next read finds it."""
        if instance is None:
            return self
        value = instance.__dict__[self.func.__name__] = self.func(instance)
        return value
