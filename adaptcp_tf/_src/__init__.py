# SPDX-License-Identifier: Apache-2.0
"""Implementation of adaptcp_tf; use the public modules of adaptcp_tf, which re-export from here."""
