// What rank 0's process broadcasts through the fabric so that the other processes find the hub.
#pragma once

#include <string>
#include <vector>

namespace twofold::watch {

struct Card {
  std::vector<std::string> addresses;  // to be tried in this order: names or numeric addresses
  std::string port;
  std::string token;    // proves that a process belongs to the run
  std::string process;  // "process 4711 on node3", where the hub is
};

std::string ToText(const Card& card);
Card CardFrom(const std::string& text);  // throws std::runtime_error if the text is not a card
std::string MakeToken();

}  // namespace twofold::watch
