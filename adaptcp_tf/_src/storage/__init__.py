# SPDX-License-Identifier: Apache-2.0
"""Bytes on disks and object stores: file operations and the lock of a checkpoint directory."""
