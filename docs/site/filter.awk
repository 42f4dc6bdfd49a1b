# A file as Doxygen is to read it: comments of headers become comments of its own kind, and headings of pages get the anchors
# to which links lead. Nothing in a comment is a command, a tag or a link.

function folder_of(path) { return sub(/\/[^\/]*$/, "", path) ? path : "" }

# The name of the page in a file, which is given relative to the folder `from`: "page-training", or "page-examples" for its
# README. Empty for what is no page of the site.
function page_of(path, from) {
  while (sub(/^\.\.\//, "", path)) from = folder_of(from)
  if (from != "") path = from "/" path
  if (path == "README.md") return "mainpage"
  if (path !~ /^docs\/[^\/]*\.md$|^examples\/README\.md$/) return ""
  sub(/\/README\.md$/, "", path)
  sub(/\.md$/, "", path)
  sub(/.*\//, "", path)
  return "page-" path
}

function anchor(page, heading) {
  heading = tolower(heading)
  gsub(/[^a-z0-9 _-]/, "", heading)
  gsub(/ /, "-", heading)
  return page "-" heading
}

# A link's text and target, as a reference where the target is a page or a heading. Those to files become their texts.
function link(text, target,   at, page) {
  at = index(target, "#")
  page = at == 1 ? this_page : page_of(at > 0 ? substr(target, 1, at - 1) : target, folder)
  if (target ~ /^https?:/) return text "(" target ")"
  if (target ~ /\.svg$/) return text "(" substr(target, length(folder_of(target)) + 2 * (target ~ /\//)) ")"
  if (page == "") return substr(text, 2, length(text) - 2)
  return text "(@ref " (at > 0 ? anchor(page, substr(target, at + 1)) : page == "mainpage" ? "index" : page) ")"
}

# The same line with such links.
function refer(line,   out, found, at) {
  while (match(line, /\[[^][]*\]\([^()]*\)/)) {
    out = out substr(line, 1, RSTART - 1)
    found = substr(line, RSTART, RLENGTH)
    line = substr(line, RSTART + RLENGTH)
    at = index(found, "](")
    out = out link(substr(found, 1, at), substr(found, at + 2, length(found) - at - 2))
  }
  return out line
}

function plain(text) {
  gsub(/[\\@<>#%&*_`]/, "\\\\&", text)
  gsub(/\)::/, ")\\::", text)
  return text
}

# The comment lines that wait for the line after them: text before a blank line is about no declaration.
function flush(documents,   i, text, verbatim) {
  for (i = 1; i <= waiting; ++i) {
    text = comment[i]
    if (!documents || text ~ /^ *---/) {
      print "//" text
      continue
    }
    # An indented line is an example, unless it goes on with an item of a list.
    if (verbatim != (text ~ /^   / && (verbatim || i == 1 || comment[i - 1] ~ /^ *$|[:;]$/))) {
      verbatim = !verbatim
      text = (verbatim ? "@verbatim\n///" : "@endverbatim\n///") (verbatim ? text : plain(text))
    } else if (!verbatim) {
      text = plain(text)
    }
    print "///" text
  }
  if (verbatim) print "///@endverbatim"
  waiting = 0
}

FNR == 1 {
  folder = FILENAME
  sub(root "/", "", folder)
  this_page = page_of(folder, "")
  folder = folder_of(folder)
  markdown = FILENAME ~ /\.md$/
  if (!markdown) print "/// @file"
}

markdown && /^```/ { code = !code }
markdown && !code && /^#+ / {
  heading = $0
  sub(/^#+ /, "", heading)
  print $0 " {#" (/^# / ? this_page : anchor(this_page, heading)) "}"
  next
}
# A text of a link that goes on in the next line is joined with it.
markdown && !code {
  if (held != "") sub(/^ */, held " ")
  held = $0 ~ /\[[^]]*$/ ? $0 : ""
  if (held == "") print refer($0)
  next
}
markdown {
  print
  next
}

/^ *\/\// {
  at = index($0, "//")
  if (at == trailing) {
    print "///< " plain(substr($0, at + 2))
    next
  }
  comment[++waiting] = substr($0, at + 2)
  next
}
{
  flush($0 !~ /^ *$/)
  # Not the slashes of an address in a text.
  trailing = match($0, /[;,{})]  ?\/\/ /) && $0 !~ /NOLINT/ ? RSTART + RLENGTH - 3 : 0
  print trailing ? substr($0, 1, trailing - 1) "///< " plain(substr($0, trailing + 3)) : $0
}
END { if (!markdown) flush(0) }
