"""The GPU: its facts and clocks, its events and graphs. The rest of the experiment is the same on a
CPU, where the tests run it.
"""

import ctypes
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch

from experiments.end_to_end.protocol import Launch
from reprolab.errors import InputError
from reprolab_nf4 import measuring

# By bit, as the programs name them (profiling/nvml.cpp).
THROTTLE_REASONS = (
    "gpu_idle applications_clocks_setting sw_power_cap hw_slowdown sync_boost sw_thermal_slowdown "
    "hw_thermal_slowdown hw_power_brake_slowdown display_clock_setting"
).split()


def uuid() -> str:
    """As NVML and the programs write it: "GPU-..."."""
    return f"GPU-{str(torch.cuda.get_device_properties(0).uuid).removeprefix('GPU-')}"


def fnv1a(text: str) -> int:
    """As profiling/basics.hpp: all passes of a GPU name it alike."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


class Sensors:
    """NVML where it is installed; readings are kept for a result file."""

    def __init__(self) -> None:
        self.nvml, self.handle = None, None
        self.readings: dict[str, list[float]] = {}
        self.reasons: int | None = None
        self.sm_mhz: float | None = None  # the latest reading
        with suppress(Exception):  # without NVML, the file has null
            import pynvml

            pynvml.nvmlInit()
            self.handle = pynvml.nvmlDeviceGetHandleByUUID(uuid())
            self.nvml = pynvml

    def ask(self, function: str, *arguments: Any) -> Any:
        """None where NVML, or this GPU, does not report it."""
        with suppress(Exception):
            return getattr(self.nvml, function)(self.handle, *arguments)
        return None

    def read(self) -> None:
        """Keeps one reading of each sensor: right after the work, before the GPU idles."""
        reading = {
            "sm_mhz": self.ask("nvmlDeviceGetClockInfo", 1),  # NVML_CLOCK_SM
            "memory_mhz": self.ask("nvmlDeviceGetClockInfo", 2),  # NVML_CLOCK_MEM
            "temperature_c": self.ask("nvmlDeviceGetTemperature", 0),
        }
        milliwatts = self.ask("nvmlDeviceGetPowerUsage")
        reading["power_w"] = None if milliwatts is None else milliwatts / 1e3
        for name, value in reading.items():
            if value is not None:
                self.readings.setdefault(name, []).append(value)
        reasons = self.ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        if reasons is not None:
            self.reasons = (self.reasons or 0) | (reasons & ~1)  # without the bit of an idle GPU
        self.sm_mhz = reading["sm_mhz"]

    def clocks(self) -> dict[str, Any]:
        """All readings since the last time, as a result file has them."""
        ranges: dict[str, Any] = {"policy": "observed", "locked_mhz": None}
        for name in ("sm_mhz", "memory_mhz", "power_w", "temperature_c"):
            ranges[name] = span(self.readings.get(name, []))
        bits, names = self.reasons, enumerate(THROTTLE_REASONS)
        ranges["throttle_reasons"] = (
            None if bits is None else [n for i, n in names if bits >> i & 1]
        )
        self.readings, self.reasons = {}, None
        return ranges


class Gpu(measuring.Gpu):
    """The one GPU that this process sees."""

    device = torch.device("cuda", 0)

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            raise InputError("PyTorch finds no GPU here")
        self.sensors = Sensors()
        self.properties = torch.cuda.get_device_properties(0)
        self.own_mark = ""

    def facts(self) -> dict[str, Any]:
        gpu, ask = self.properties, self.sensors.ask
        ecc, limit = ask("nvmlDeviceGetEccMode"), ask("nvmlDeviceGetEnforcedPowerLimit")
        clock_khz = getattr(gpu, "memory_clock_rate", 0)
        bus_bits = getattr(gpu, "memory_bus_width", 0)
        driver = None
        with suppress(Exception):
            driver = self.sensors.nvml.nvmlSystemGetDriverVersion()
        return {
            "name": gpu.name,
            "unit": f"{fnv1a(uuid()):016x}",
            "compute_capability": f"{gpu.major}.{gpu.minor}",
            "multiprocessors": gpu.multi_processor_count,
            "memory_bytes": gpu.total_memory,
            "l2_bytes": self.l2_bytes(),
            # Two transfers per clock, eight bits to the byte.
            "theoretical_bandwidth_gb_s": 2 * clock_khz * bus_bits / 8 / 1e6 or None,
            "driver": driver,
            "cuda_driver": cuda_driver(),
            "cuda_runtime": str(torch.version.cuda),
            "ecc": bool(ecc and ecc[0]),
            "power_limit_w": None if limit is None else limit / 1e3,
        }

    def free_bytes(self) -> int:
        """Memory that neither other processes nor this one's tensors use."""
        free, _ = torch.cuda.mem_get_info(0)
        return free + torch.cuda.memory_reserved(0) - torch.cuda.memory_allocated(0)

    def synchronize(self) -> None:
        torch.cuda.synchronize()

    def mark(self) -> None:
        """Launches a kernel that only marks use: it shows where a forward pass ends."""
        torch.cuda._sleep(1)

    def mark_name(self) -> str:
        """CUPTI's name of a mark."""
        if not self.own_mark:
            _, launches = self.records(self.mark)
            if not launches:
                raise InputError("CUPTI records nothing here; does another profiler run?")
            self.own_mark = launches[-1].name
        return self.own_mark

    def records(self, run: Callable[[], Any]) -> tuple[Any, list[Launch]]:
        """The result of `run`, and its work on the GPU, as CUPTI recorded it."""
        self.synchronize()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            result = run()
            self.synchronize()
            self.sensors.read()
        events = profile.profiler.kineto_results.events()
        on_gpu = [e for e in events if e.device_type() == torch.autograd.DeviceType.CUDA]
        on_gpu = [e for e in on_gpu if not e.is_user_annotation()]
        return result, [Launch(e.name(), e.start_ns(), e.end_ns()) for e in on_gpu]


def span(values: Sequence[float]) -> dict[str, float] | None:
    """Minimum, median and maximum of a sensor's readings; None without any."""
    ascending = sorted(values)
    if not ascending:
        return None
    return {"min": ascending[0], "median": ascending[len(ascending) // 2], "max": ascending[-1]}


def cuda_driver() -> str:
    """The CUDA version that the driver supports."""
    number = ctypes.c_int(0)
    ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(number))
    return f"{number.value // 1000}.{number.value % 1000 // 10}"
