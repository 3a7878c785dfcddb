#include "backends/watch/hub_server.h"

#include <chrono>
#include <utility>

#include "core/base/strings.h"

namespace twofold::watch {

using asio::ip::tcp;

namespace {
constexpr std::chrono::milliseconds kAgain(50);  // delay after a failed accept
}

HubServer::HubServer(const Options& options, tcp::acceptor acceptor, const RunningClock& clock,
                     std::function<void(const control::FromHub&)> hear)
    : options_(options),
      acceptor_(std::move(acceptor)),
      clock_(clock),
      hear_(std::move(hear)),
      hub_(options.processes, options.least_silence_s,
           [this](int rank, const control::FromHub& message) { Send(rank, message); }),
      links_(static_cast<size_t>(options.processes)),
      again_(acceptor_.get_executor()) {
  hub_.Connected(0, options_.process);
  if (options_.processes > 1)
    Accept();
  else
    all_have_come_.set_value();
}

void HubServer::Accept() {
  acceptor_.async_accept([this](asio::error_code error, tcp::socket socket) {
    if (!acceptor_.is_open()) return;
    why_deaf_ = error ? error.message() : "";  // for example: too many open files
    if (error) return AcceptLater();
    Welcome(std::make_shared<Link>(std::move(socket)));
    Accept();
  });
}

void HubServer::AcceptLater() {
  again_.expires_after(kAgain);
  again_.async_wait([this](asio::error_code error) {
    if (!error && acceptor_.is_open()) Accept();
  });
}

void HubServer::Welcome(std::shared_ptr<Link> link) {
  strangers_.push_back(link);
  if (static_cast<int>(strangers_.size()) > awaited() + kMostStrangers) {
    strangers_.front()->Close();
    strangers_.pop_front();
  }
  auto rank = std::make_shared<int>(-1);
  const std::weak_ptr<Link> self = link;
  link->Start(
      [this, self, rank](const std::string& bytes) {
        if (const auto from = self.lock()) Hear(from, *rank, bytes);
      },
      [this, self, rank](asio::error_code why) {
        strangers_.remove(self.lock());
        if (*rank >= 0) hub_.Lose(*rank, clock_.now(), HowLost(why));
      });
}

void HubServer::Hear(const std::shared_ptr<Link>& link, int& rank, const std::string& bytes) {
  control::ToHub message;
  const bool whole = message.ParseFromString(bytes);
  // An incomplete message comes from another build; its sender will be missed.
  if (rank >= 0) return whole ? HearMember(link, rank, message) : void();
  strangers_.remove(link);
  if (!whole || !Belongs(message)) return link->Close();
  rank = message.hello().rank();
  link->Trust();
  links_[static_cast<size_t>(rank)] = link;
  hub_.Connected(rank, message.hello().process());
  ++have_come_;
  if (awaited() > 0) return;
  acceptor_.close();
  for (const auto& stranger : std::exchange(strangers_, {})) stranger->Close();
  all_have_come_.set_value();
}

void HubServer::HearMember(const std::shared_ptr<Link>& link, int rank, const control::ToHub& message) {
  if (!message.has_hello()) return hub_.Hear(rank, message, clock_.now());
  link->Close();
  hub_.Lose(rank, clock_.now(), "introduced itself twice, so its connection was closed");
}

bool HubServer::Belongs(const control::ToHub& message) const {
  const control::Hello& hello = message.hello();
  return message.has_hello() && hello.token() == options_.token && hello.rank() > 0 &&
         hello.rank() < options_.processes && links_[static_cast<size_t>(hello.rank())] == nullptr;
}

void HubServer::Send(int rank, const control::FromHub& message) {
  if (rank == 0) return asio::post(acceptor_.get_executor(), [this, message] { hear_(message); });
  if (links_[static_cast<size_t>(rank)] != nullptr) links_[static_cast<size_t>(rank)]->Send(message);
}

void HubServer::GiveSignsOfLife() {
  for (const auto& link : links_) {
    if (link != nullptr) link->Send(control::FromHub());
  }
}

void HubServer::Close() {
  asio::error_code ignored;
  acceptor_.close(ignored);
  again_.cancel();
  for (const auto& link : strangers_) link->Close();
  for (const auto& link : links_) {
    if (link != nullptr) link->Close();
  }
}

}  // namespace twofold::watch
