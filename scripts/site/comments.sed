# Plain comments of headers as Doxygen's: the file's, as it is laid out, with its first sentence as the summary; those before a
# declaration; those at the end of a line.
1 {
  :more
  N
  /\n\/\/[^\n]*$/ b more
  s|\*/|* /|g
  s|^// ||
  s|\n// \?|\n|g
  s|^[^.]*\(\.[^ .\n][^.]*\)*|/** \\file\n\\brief &.\n\n\\verbatim\n&|
  s|\n\([^\n]*\)$|\n\\endverbatim */\n\1|
}
s|^\( *\)// |\1/// |
s|^\( *\)//$|\1///|
s|\([;,{})] *\)// |\1///< |
