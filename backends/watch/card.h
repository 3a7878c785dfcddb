// What the process of rank 0 tells the others, by the fabric's broadcast, so that they find the hub.
#pragma once

#include <string>
#include <vector>

namespace twofold::watch {

struct Card {
  std::vector<std::string> addresses;  // to be tried in this order: names, or addresses in numbers
  std::string port;
  std::string token;    // who knows it belongs to the run
  std::string process;  // "process 4711 on node3", where the hub is
};

std::string ToText(const Card& card);
Card CardFrom(const std::string& text);  // throws std::runtime_error where it is none
std::string MakeToken();

}  // namespace twofold::watch
