# SPDX-License-Identifier: Apache-2.0
"""What became of each checkpoint of a run, kept beside them for people: files of JSON lines."""

from adaptcp_tf._src.history.files_of_reports import read_history, report_of
from adaptcp_tf._src.history.log import HistoryLog

__all__ = ["HistoryLog", "read_history", "report_of"]
