"""Job objects, the Windows counterpart of process groups. The processes of a job end with its last handle."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys

import trio

__all__ = ["JobObject"]

_log = logging.getLogger("mcp_client")

if sys.platform == "win32":
    from ctypes import wintypes

    _EXTENDED_LIMIT_INFORMATION = 9
    _LIMIT_KILL_ON_JOB_CLOSE = 0x2000
    _PROCESS_TERMINATE_AND_SET_QUOTA = 0x0101

    class _BasicLimits(ctypes.Structure):
        _fields_ = (
            ("PerProcessUserTimeLimit", wintypes.LARGE_INTEGER),
            ("PerJobUserTimeLimit", wintypes.LARGE_INTEGER),
            ("LimitFlags", wintypes.DWORD),
            ("MinimumWorkingSetSize", ctypes.c_size_t),
            ("MaximumWorkingSetSize", ctypes.c_size_t),
            ("ActiveProcessLimit", wintypes.DWORD),
            ("Affinity", ctypes.c_size_t),
            ("PriorityClass", wintypes.DWORD),
            ("SchedulingClass", wintypes.DWORD),
        )

    class _ExtendedLimits(ctypes.Structure):
        _fields_ = (
            ("BasicLimitInformation", _BasicLimits),
            ("IoInfo", ctypes.c_ulonglong * 6),
            ("ProcessMemoryLimit", ctypes.c_size_t),
            ("JobMemoryLimit", ctypes.c_size_t),
            ("PeakProcessMemoryUsed", ctypes.c_size_t),
            ("PeakJobMemoryUsed", ctypes.c_size_t),
        )

    _kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
    _kernel32.CreateJobObjectW.argtypes = (wintypes.LPVOID, wintypes.LPCWSTR)
    _kernel32.CreateJobObjectW.restype = wintypes.HANDLE
    _kernel32.SetInformationJobObject.argtypes = (wintypes.HANDLE, ctypes.c_int, wintypes.LPVOID, wintypes.DWORD)
    _kernel32.OpenProcess.argtypes = (wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)
    _kernel32.OpenProcess.restype = wintypes.HANDLE
    _kernel32.AssignProcessToJobObject.argtypes = (wintypes.HANDLE, wintypes.HANDLE)
    _kernel32.TerminateJobObject.argtypes = (wintypes.HANDLE, wintypes.UINT)
    _kernel32.CloseHandle.argtypes = (wintypes.HANDLE,)

    class JobObject:
        """A job that contains the process `leader` and all processes that it starts.

        If Windows does not create the job, the failure is logged, and only the leader can be terminated.
        """

        def __init__(self, leader: int) -> None:
            self._leader = leader
            self._job: int | None = None
            job = _kernel32.CreateJobObjectW(None, None)
            limits = _ExtendedLimits()
            limits.BasicLimitInformation.LimitFlags = _LIMIT_KILL_ON_JOB_CLOSE
            process = _kernel32.OpenProcess(_PROCESS_TERMINATE_AND_SET_QUOTA, 0, leader)
            if (
                job
                and process
                and _kernel32.SetInformationJobObject(
                    job, _EXTENDED_LIMIT_INFORMATION, ctypes.byref(limits), ctypes.sizeof(limits)
                )
                and _kernel32.AssignProcessToJobObject(job, process)
            ):
                self._job = job
            else:
                _log.warning(
                    "job object not created: pid=%d error=%s", leader, ctypes.WinError(ctypes.get_last_error())
                )
                if job:
                    _kernel32.CloseHandle(job)
            if process:
                _kernel32.CloseHandle(process)

        def terminate(self) -> bool:
            """Terminate all members. Windows does not have a graceful signal that every kind of program receives."""
            return self.kill()

        def kill(self) -> bool:
            """Terminate all members, and return whether that was possible."""
            if self._job is not None:
                return bool(_kernel32.TerminateJobObject(self._job, 1))
            try:
                os.kill(self._leader, signal.SIGTERM)
            except OSError:
                return False
            return True

        async def gone(self) -> None:
            """Return after a checkpoint. The termination of a job is immediate."""
            await trio.lowlevel.checkpoint()

        def close(self) -> None:
            """Close the handle, which terminates all remaining members."""
            if self._job is not None:
                _kernel32.CloseHandle(self._job)
                self._job = None
