#!/usr/bin/python3
"""Prints what BCC's own table.py (Debian's python3-bpfcc) draws, for bcc.txt:
    /usr/bin/python3 bccpeer.py > bcc.txt
The tests draw the same histograms and compare."""
import bcc.table as table


def log2(name, values, strip=False):
    print("== " + name)
    slots = [0] * 65
    for value, count in values:
        slots[max(1, value.bit_length())] += count
    table._print_log2_hist(slots, "usecs", strip)


def linear(name, values):
    print("== " + name)
    slots = [0] * 1025
    for value, count in values:
        slots[value] += count
    table._print_linear_hist(slots, "value", False)


SPREAD = [(0, 3), (1, 4), (2, 1), (5, 17), (100, 9), (1000, 2)]
log2("spread", SPREAD)
log2("strip", [(300, 5), (5000, 1)], True)
log2("leading", [(300, 5), (5000, 1)])
log2("one", [(1, 1)])
log2("wide", [(7, 5), (1 << 40, 3)])
log2("edge", [((1 << 32) - 1, 7), (1, 2)])
log2("top", [((1 << 63) - 1, 2), (1, 1)])
log2("large", [(1, 107374183), (2, 1 << 31), (4, 1 << 32), (8, (1 << 63) + 12345), (16, (1 << 63) - 1)])
log2("thirds", [(1 << i, i * 37 % 101 + 1) for i in range(30)])
linear("linear", [(0, 1), (3, 7), (10, 2)])
linear("zero", [(0, 5)])
