"""A computation that stops an attempt, as a kill does, at any of the times when it is asked for something."""

from blockveil.pipeline.releases.compute import ThreadCompute


class Stopped(BaseException):
    """No error of the product's, so that nothing is told or given back."""


class StoppingCompute(ThreadCompute):
    """Two threads, which stop the attempt when something is asked of them for the so-many-th time, from one on."""

    def __init__(self, stop):
        super().__init__(2)
        self._left = stop

    def hold(self, graph, progress):
        self._count()
        return super().hold(graph, progress)

    def stream(self, values, consume, progress):
        self._count()
        super().stream(values, consume, progress)

    def _count(self):
        self._left -= 1
        if self._left == 0:
            raise Stopped
