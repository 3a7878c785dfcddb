#include "kernels/cuda/emulated/nccl/clique.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <map>
#include <mutex>
#include <string>

#include "core/base/check.h"

namespace twofold::emulated {
namespace {

constexpr uint64_t kMagic = 0x6c63636e646c6f66;  // "foldnccl"

uint64_t Random() {
  uint64_t value = 0;
  TWOFOLD_CHECK(getrandom(&value, sizeof(value), 0) == sizeof(value), "random bytes of the system");
  return value;
}

Meeting* Map(int fd) {
  void* address = mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return address == MAP_FAILED ? nullptr : static_cast<Meeting*>(address);
}
void Unmap(Meeting* meeting) { munmap(meeting, sizeof(Meeting)); }

// All ranks of a process map a clique at the same addresses.
std::shared_ptr<Meeting> Mapped(uint64_t nonce, int fd) {
  static std::mutex& mutex = *new std::mutex;
  static auto& known = *new std::map<uint64_t, std::weak_ptr<Meeting>>;
  const std::scoped_lock lock(mutex);
  if (std::shared_ptr<Meeting> meeting = known[nonce].lock()) return meeting;
  Meeting* made = Map(fd);
  if (made == nullptr) return nullptr;
  std::shared_ptr<Meeting> meeting(made, Unmap);
  known[nonce] = meeting;
  return meeting;
}

struct flock LockOf(int rank, short type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

}  // namespace

bool Clique::Make(CliqueName* name) {
  const int fd = memfd_create("nccl", MFD_CLOEXEC);
  if (fd < 0) return false;
  if (ftruncate(fd, sizeof(Meeting)) != 0) {
    close(fd);
    return false;
  }
  Meeting* meeting = Map(fd);
  if (meeting == nullptr) {
    close(fd);
    return false;
  }
  *name = {.magic = kMagic, .nonce = Random(), .pid = getpid(), .fd = fd};
  meeting->nonce.store(name->nonce, std::memory_order_release);
  Unmap(meeting);
  return true;
}

std::shared_ptr<Clique> Clique::Join(const CliqueName& name, int rank, int size, Refused* refused) {
  const auto refuse = [&](ncclResult_t result, const char* why) {
    *refused = {result, why};
    return nullptr;
  };
  if (name.magic != kMagic) return refuse(ncclInvalidArgument, "the unique id does not come from ncclGetUniqueId");
  const std::string path = "/proc/" + std::to_string(name.pid) + "/fd/" + std::to_string(name.fd);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0)
    return refuse(ncclSystemError, "the process that made the unique id is gone, or all ranks have already met");
  std::shared_ptr<Meeting> meeting = lseek(fd, 0, SEEK_END) == sizeof(Meeting) ? Mapped(name.nonce, fd) : nullptr;
  if (meeting == nullptr || meeting->nonce.load(std::memory_order_acquire) != name.nonce) {
    close(fd);
    return refuse(ncclSystemError, "the ranks of this unique id have already met");
  }
  const std::shared_ptr<Clique> clique(new Clique(name, rank, size, fd, meeting));
  uint32_t others = 0;
  if (!meeting->size.compare_exchange_strong(others, static_cast<uint32_t>(size)) &&
      others != static_cast<uint32_t>(size)) {
    return refuse(ncclInternalError, "mismatch in rank count from procs");
  }
  struct flock lock = LockOf(rank, F_WRLCK);
  const bool taken = meeting->places[rank].presence.load(std::memory_order_acquire) != Presence::kAbsent;
  if (taken || fcntl(fd, F_OFD_SETLK, &lock) != 0) return refuse(ncclInternalError, "this rank has already checked in");
  return clique;
}

Clique::~Clique() { close(fd_); }

void Clique::Ring(int rank) {
  std::atomic<uint32_t>& bell = place(rank).bell;
  bell.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}
void Clique::RingAll() {
  for (int r = 0; r < size_; ++r) Ring(r);
}
void Clique::Sleep(uint32_t bell) { syscall(SYS_futex, &mine().bell, FUTEX_WAIT, bell, nullptr, nullptr, 0); }

void Clique::AllHaveJoined() {
  if (name_.pid != getpid()) return;
  static std::mutex& mutex = *new std::mutex;
  const std::scoped_lock lock(mutex);  // several ranks may be threads of this process
  uint64_t held = name_.nonce;
  if (meeting_->nonce.compare_exchange_strong(held, 0)) close(name_.fd);
}

int Clique::Lost() {
  for (int r = 0; r < size_; ++r) {
    const Presence presence = place(r).presence.load(std::memory_order_acquire);
    if (r == rank_ || presence == Presence::kAbsent || presence == Presence::kGone) continue;
    struct flock lock = LockOf(r, F_WRLCK);
    if (fcntl(fd_, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK) continue;
    // A rank that has left in the meantime set kGone before it released its lock.
    if (place(r).presence.load(std::memory_order_acquire) != Presence::kGone) return r;
  }
  return -1;
}

}  // namespace twofold::emulated
