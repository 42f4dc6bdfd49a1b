#!/usr/bin/env python3
"""Prints character_classes.cc from Unicode's general categories, as Python's unicodedata has them.

Usage: make_character_classes.py > character_classes.cc
Tokens depend on the version of Unicode, so the table is part of the sources and does not change with the system.
"""

import unicodedata

SPACES = {0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0x20, *range(0x09, 0x0E), *range(0x2000, 0x200B)}


def class_of(code):
    if code in SPACES:  # the property White_Space
        return 3
    return {"L": 1, "N": 2}.get(unicodedata.category(chr(code))[0], 0)


def main():
    starts, last = [], None
    for code in range(0x110000):
        if class_of(code) != last:
            last = class_of(code)
            starts.append(f"{code << 2 | last}")
    lines, line = [], "   "
    for number in starts:
        if len(line) + len(number) + 2 > 120:
            lines.append(line)
            line = "   "
        line += f" {number},"
    lines.append(line)
    print(f"""// Written by make_character_classes.py from Unicode {unicodedata.unidata_version}. Do not edit.
#include "framework/data/tokenizers/character_classes_impl.h"

namespace belfry::data {{

// clang-format off
const uint32_t kClassStarts[] = {{
""" + "\n".join(lines) + """
};
// clang-format on
const size_t kClassStartCount = sizeof(kClassStarts) / sizeof(kClassStarts[0]);

}  // namespace belfry::data""")


if __name__ == "__main__":
    main()
