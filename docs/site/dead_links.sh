#!/bin/sh
# dead_links.sh FOLDER: prints the links of the pages in FOLDER that lead to no page, file or anchor there; fails if there are
# some. Doxygen itself links lists of classes that are all private, and its search.
cd "$1" || exit 2
links=$(mktemp) there=$(mktemp)
trap 'rm -f "$links" "$there"' EXIT
grep -oH 'href="[^"]*"' -- *.html | sed 's/href="\(.*\)"$/\1/' |
  awk -F: '{ page = $1; sub(/^[^:]*:/, "") }
    /^(https?|javascript|mailto):/ || /#nested-classes$/ || /^search\// { next }
    { print /^#/ ? page $0 : $0 }' | sort -u >"$links"
{ ls && grep -oHE '(id|name)="[^"]*"' -- *.html | sed -E 's/:(id|name)="(.*)"$/#\2/'; } | sort -u >"$there"
dead=$(comm -23 "$links" "$there")
[ -z "$dead" ] || { printf '%s\n' "$dead"; exit 1; }
