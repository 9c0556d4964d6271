#include "tools/gpu_check/memory_share.h"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

#include "runtime/gpu/peer.h"
#include "runtime/gpu/slot_pins.h"
#include "runtime/protocol/channel.h"
#include "tools/gpu_check/memory_client.h"

extern char** environ;

namespace batchflow::gpu_check {
namespace {

using Clock = protocol::Channel::Clock;
constexpr std::string_view kGroup = "sharing";

// A socket that clients connect to, in a folder of its own.
class Listener {
 public:
  Listener() {
    char folder[] = "/tmp/gpu_check.XXXXXX";
    if (mkdtemp(folder) == nullptr || chmod(folder, 0755) != 0) fail("mkdtemp");
    folder_ = folder;
    path_ = folder_ + "/socket";
    socket_ = protocol::Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    address_.sun_family = AF_UNIX;
    std::strncpy(address_.sun_path, path_.c_str(), sizeof address_.sun_path - 1);
    if (!socket_ || bind(socket_.get(), reinterpret_cast<sockaddr*>(&address_), sizeof address_) ||
        chmod(path_.c_str(), 0777) != 0 || listen(socket_.get(), 4) != 0)
      fail("listen");
  }
  ~Listener() {
    unlink(path_.c_str());
    rmdir(folder_.c_str());
  }
  const std::string& path() const { return path_; }
  const sockaddr_un& address() const { return address_; }

  protocol::Descriptor accept() const {
    pollfd wanted{socket_.get(), POLLIN, 0};
    if (poll(&wanted, 1, 20'000) <= 0) throw std::runtime_error("no client connects");
    return protocol::Descriptor(
        accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  }

 private:
  [[noreturn]] static void fail(const char* call) {
    throw std::runtime_error(fmt::format("{}: {}", call, std::strerror(errno)));
  }
  std::string folder_, path_;
  sockaddr_un address_{};
  protocol::Descriptor socket_;
};

// This program, as a client.
class Client {
 public:
  Client(std::string_view role, const std::string& address) {
    std::string program = "gpu_check", argument = kClientArgument, played(role), where = address;
    char* arguments[] = {program.data(), argument.data(), played.data(), where.data(), nullptr};
    if (posix_spawn(&process_, "/proc/self/exe", nullptr, nullptr, arguments, environ) != 0)
      throw std::runtime_error("the client cannot be started");
  }
  ~Client() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Client(const Client&) = delete;

 private:
  pid_t process_ = 0;
};

class Sharing {
 public:
  Sharing(Report& report, gpu::Device& device, gpu::Copies& to_device, gpu::Copies& from_device,
          Bytes bytes)
      : report_(report),
        to_device_(to_device),
        from_device_(from_device),
        bytes_(bytes),
        memory_(device.make_memory(bytes)),
        written_(device.make_pinned(bytes)),
        read_(device.make_pinned(bytes)) {
    fill_pattern({written_.get(), bytes});
    fill();
  }

  void fill() { to_device_.copy({{memory_->address(), written_.get(), bytes_}}); }
  bool is_unchanged() {
    std::memset(read_.get(), 0, bytes_);
    from_device_.copy({{read_.get(), memory_->address(), bytes_}});
    return std::memcmp(read_.get(), written_.get(), bytes_) == 0;
  }

  // What the client answers. With `peer`, its process.
  std::string ask(std::string_view role, gpu::Peer* peer = nullptr) {
    const Client client(role, listener_.path());
    protocol::Channel channel(listener_.accept());
    std::string problem;
    gpu::Peer found = gpu::Peer::at(channel.socket().get(), problem);
    if (const std::string why = gpu::why_not_share(found); !why.empty()) return "FAILED: " + why;
    const protocol::Descriptor descriptor = memory_->export_descriptor();
    const int number = descriptor.get();
    channel.send(std::to_string(bytes_), {&number, 1}, Clock::now() + std::chrono::seconds(5));
    const auto answer = channel.receive(Clock::now() + std::chrono::seconds(60));
    if (peer != nullptr) *peer = std::move(found);
    return answer ? answer->text : "FAILED: " + channel.problem();
  }

  void row(std::string_view what, bool is_right, const std::string& value,
           std::string_view aim = "") {
    report_.row(kGroup, what, is_right ? Verdict::passed : Verdict::failed, value, aim);
  }

  void reads() {
    const std::string said = ask(kReads);
    row("a second process maps the memory by its descriptor", said.starts_with("all bytes"), said);
  }

  void hostile(std::string_view role, std::string_view what) {
    const std::string said = ask(role);
    const bool is_unchanged_here = is_unchanged();
    row(what, said.starts_with("refused") && is_unchanged_here,
        said + (is_unchanged_here ? "; the service's bytes are unchanged"
                                  : "; the service's bytes HAVE CHANGED"));
    if (!is_unchanged_here) fill();
  }

  void maps_writable() {
    const std::string said = ask(kMapsWritable);
    const bool has_changed = !is_unchanged();
    report_.row(kGroup, "a hostile process maps the descriptor writable by itself",
                said.starts_with("FAILED") && has_changed ? Verdict::failed : Verdict::measured,
                fmt::format("{}; the service's bytes {}", said,
                            has_changed ? "changed: hence never between users" : "are unchanged"));
    fill();
    row("the service goes on afterwards", is_unchanged(), "its bytes can be written and read");
  }

  void crashes() {
    gpu::Peer peer;
    gpu::SlotPins pins;
    const SlotId slot(0);
    const gpu::ProcessId process(1);
    pins.pin(slot, process);
    const auto begin = Clock::now();
    const std::string said = ask(kCrashes, &peer);
    pins.forget(process, std::move(peer.life));
    std::size_t freed = 0;
    while (freed == 0 && Clock::now() < begin + std::chrono::seconds(30)) {
      freed = pins.collect().size();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    fill();
    row("a job crashes while its GPU reads", said == "under way" && freed == 1 && is_unchanged(),
        said == "under way" ? "the slot is free once the process is gone" : said);
  }

  // A process that `prepare` makes another one connects. Whether our own check refuses it.
  template <class Prepare>
  void refused(std::string_view what, std::string_view reason, Prepare prepare) {
    const pid_t child = fork();
    if (child == 0) {  // nothing but system calls: other threads hold locks
      prepare();
      const int made = socket(AF_UNIX, SOCK_STREAM, 0);
      const sockaddr_un& address = listener_.address();
      char byte = 0;
      if (connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
        (void)!read(made, &byte, 1);
      _exit(0);
    }
    std::string why;
    {
      const protocol::Descriptor socket = listener_.accept();
      std::string problem;
      why = gpu::why_not_share(gpu::Peer::at(socket.get(), problem));
    }
    waitpid(child, nullptr, 0);
    row(what, why.find(reason) != std::string::npos, why.empty() ? "it would be shared" : why);
  }

 private:
  Report& report_;
  gpu::Copies& to_device_;
  gpu::Copies& from_device_;
  const Bytes bytes_;
  const std::unique_ptr<gpu::DeviceMemory> memory_;
  const std::shared_ptr<std::byte> written_, read_;
  Listener listener_;
};

void check_refusals(Report& report, Sharing& sharing) {
  if (geteuid() != 0) {
    report.row(kGroup, "other users and process namespaces are refused", Verdict::not_run,
               "this needs root");
    return;
  }
  sharing.refused("a process of another user is refused", "user", [] {
    if (syscall(SYS_setresgid, 65534, 65534, 65534) != 0 ||
        syscall(SYS_setresuid, 65534, 65534, 65534) != 0)
      _exit(1);
  });
  sharing.refused("a process of another process namespace is refused", "namespace", [] {
    if (unshare(CLONE_NEWPID) != 0) _exit(1);
    const pid_t inner = fork();
    if (inner == 0) return;
    waitpid(inner, nullptr, 0);
    _exit(0);
  });
}

}  // namespace

void fill_pattern(std::span<std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>((i * 0x9E3779B97F4A7C15u) >> 56);
}

bool is_pattern(std::span<const std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != static_cast<std::byte>((i * 0x9E3779B97F4A7C15u) >> 56)) return false;
  return true;
}

void check_sharing(Report& report, const Options& options, gpu::Device& device,
                   gpu::Copies& to_device, gpu::Copies& from_device) {
  if (!device.facts().shares_descriptors) {
    report.row(kGroup, "memory in two processes", Verdict::not_run, device.facts().sentence());
    return;
  }
  Sharing sharing(report, device, to_device, from_device,
                  Bytes{options.sanitized ? 2u : 64u} << 20);
  sharing.row("filled and read back", sharing.is_unchanged(), "all bytes");
  sharing.reads();
  check_refusals(report, sharing);
  if (options.sanitized) return;  // what follows is what the sanitizer would report
  sharing.hostile(kWrites, "a kernel of a second process writes to memory mapped read-only");
  sharing.hostile(kWritesByDriver, "a copy of a second process writes to memory mapped read-only");
  sharing.maps_writable();
  sharing.crashes();
}

}  // namespace batchflow::gpu_check
