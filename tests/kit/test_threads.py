"""Maps over tasks: order, one BLAS thread inside, and what an error leaves behind."""

import threading

import pytest

from spikepool.kit.threads import serial_map, single_threaded_blas, task_threads, thread_count


@pytest.mark.parametrize("large", [False, True])
def test_results_come_in_order(large):
    with task_threads(large=large) as over:
        assert over(lambda i: i * i, 20) == serial_map(lambda i: i * i, 20)
        assert thread_count() == 1


def test_blas_is_given_back():
    before = thread_count()
    with single_threaded_blas() as allowed:
        assert (allowed, thread_count()) == (before, 1)
    assert thread_count() == before


def test_an_error_leaves_no_thread():
    count = threading.active_count()

    def fail(i):
        raise RuntimeError(str(i))

    with pytest.raises(RuntimeError, match="0"), task_threads(large=True) as over:
        over(fail, 4)
    assert threading.active_count() == count
