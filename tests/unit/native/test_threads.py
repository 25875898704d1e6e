from cera_native.threads import default_num_threads, num_physical_cores


def describe_cpu(directory, number, siblings):
    topology = directory / f"cpu{number}" / "topology"
    topology.mkdir(parents=True)
    (topology / "thread_siblings_list").write_text(f"{siblings}\n")


def test_two_threads_of_a_core_count_once(tmp_path):
    for number in range(8):
        describe_cpu(tmp_path, number, f"{number % 4},{number % 4 + 4}")
    assert num_physical_cores(range(8), tmp_path) == 4
    assert num_physical_cores([1, 5], tmp_path) == 1
    assert num_physical_cores([1, 2], tmp_path) == 2


def test_processors_that_are_not_described_count_each(tmp_path):
    assert num_physical_cores(range(3), tmp_path) == 3


def test_the_default_is_at_least_one():
    assert default_num_threads() >= 1
