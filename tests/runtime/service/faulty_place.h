// What a node serves while its service fails: rows, pictures, small files, pipelines; and which
// jobs run on it.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "runtime/protocol/descriptor.h"
#include "tests/runtime/prepare/pictures.h"
#include "tests/runtime/service/certificate.h"
#include "tests/runtime/service/faulty_job.h"
#include "tests/runtime/service/free_port.h"

namespace batchflow::test {

// What is done on the node, and how.
enum class Scenario { ring, pool, spill };
inline const char* name_of(Scenario scenario) {
  constexpr const char* kNames[] = {"io_uring", "pread", "spill"};
  return kNames[static_cast<int>(scenario)];
}

class FaultyPlace {
 public:
  FaultyPlace() : http_port(free_port()), tcp_port(free_port()) {
    std::filesystem::create_directory(path("rows"));
    write_rows(path("rows") + "/rows.npy", kRows, kWidth);
    std::filesystem::create_directory(path("large"));
    write_rows(path("large") + "/rows.npy", kLargeRows, kLargeWidth);
    std::filesystem::create_directories(path("pictures") + "/one");
    for (std::uint64_t i = 0; i < kPictures; ++i) {
      const bool is_png = i % 2 == 0;
      write_file(
          path("pictures") + fmt::format("/one/{:03}.{}", i, is_png ? "png" : "jpg"),
          is_png ? encode_png(make_pixels(24, 24, 3, i), 24, 24) : encode_jpeg(24, 24, {}, i));
    }
    // One block of pictures that take so long that the other worker helps.
    std::filesystem::create_directories(path("slow") + "/one");
    for (std::uint64_t i = 0; i < kSlow; ++i)
      write_file(path("slow") + fmt::format("/one/{:03}.jpg", i), encode_jpeg(512, 512, {}, i));
    std::filesystem::create_directory(path("files"));
    for (std::uint64_t i = 0; i < kFiles; ++i)
      write_file(path("files") + fmt::format("/{:03}.bin", i), Encoded(500 + 7 * i));
    std::ofstream(path("small.yaml")) << "kind: pipeline\nname: small\nsteps:\n"
                                         "  - {step: decode}\n"
                                         "  - {step: random_resized_crop, size: 8}\n";
    std::ofstream(path("copy.yaml"))
        << fmt::format("kind: pipeline\nname: copy\nsteps:\n  - {{plugin: {}/mischief.so}}\n",
                       BATCHFLOW_TEST_STEPS);
    std::ofstream(path("token")) << std::string(64, 't') << "\n";
    chmod(path("token").c_str(), 0600);
    setenv("BATCHFLOW_TOKEN_FILE", path("token").c_str(), 1);
    has_tls_ = make_certificate(folder_.path());
    setenv("BATCHFLOW_TLS_CA", path("cert.pem").c_str(), 1);
  }
  std::string path(const std::string& name) const { return folder_.path() / name; }

  // False where there is no openssl command.
  bool has_tls() const { return has_tls_; }
  bool is_by_tls(Scenario scenario) const { return has_tls_ && scenario == Scenario::pool; }

  void write_node_file(Scenario scenario) const {
    const bool spills = scenario == Scenario::spill;
    std::ofstream out(path("node.yaml"));
    out << "kind: node\nworkers: 2\nopen_datasets: true\nsocket: " << socket
        << "\nstate: " << path("state") << "\n"
        << "engine: {retry_wait: 1ms, read_attempts: 15, promise_log_bytes_max: 4kib,\n"
        << "  corrupt_ratio_max: 20%, block_bytes: " << (spills ? "1mib" : "64kib") << "}\n";
    if (spills) {
      out << "memory: 160mib\nhttp: {port: -1}\nstorage: {staging: 16mib}\n"
          << "datasets: [{name: large, path: " << path("large") << "}]\n"
          << "spill: {path: " << path("drive") << ", bytes: 96mib}\n";
      return;
    }
    out << "memory: 512mib\njournal: true\nhttp: {port: " << http_port << "}\n"
        << "tcp: {port: " << tcp_port << ", token_file: " << path("token")
        << (is_by_tls(scenario)
                ? fmt::format(", certificate: {}, key: {}", path("cert.pem"), path("key.pem"))
                : "")
        << "}\n"
        << "storage: {staging: 32mib, engine: " << (scenario == Scenario::pool ? "pread" : "auto")
        << "}\n"
        << "steps: {timeout: 1s, start_timeout: 5s}\n"
        << "pipelines: [" << path("small.yaml") << ", " << path("copy.yaml") << "]\n"
        << "datasets:\n  - {name: rows, path: " << path("rows") << "}\n"
        << "  - {name: pictures, path: " << path("pictures") << ", pipeline: small}\n"
        << "  - {name: slow, path: " << path("slow") << ", pipeline: small}\n";
  }

  std::vector<FaultyJob> jobs(Scenario scenario) const {
    if (scenario == Scenario::spill)
      return {{"one", socket, "large", "", BF_RELAXED, kLargeRows, 2, kLargeWidth},
              {"other", socket, "large", "", BF_STRICT, kLargeRows, 2, kLargeWidth}};
    return {
        {"relaxed", socket, "rows", "", BF_RELAXED, kRows, 2, kWidth},
        {"strict", socket, path("files"), "", BF_STRICT, kFiles, 2, 0},
        {"pictures", socket, "pictures", "", BF_RELAXED, kPictures, 2, 0},
        {"slow", socket, "slow", "", BF_RELAXED, kSlow, 1, 0},
        {"plugin", socket, "rows", "copy", BF_RELAXED, kRows, 1, 0},
        {"remote", fmt::format("{}://127.0.0.1:{}", is_by_tls(scenario) ? "tls" : "tcp", tcp_port),
         "rows", "", BF_STRICT, kRows, 2, kWidth},
        {"ranks", socket, "rows", "", BF_RELAXED, kRows, 2, kWidth, 2}};
  }

  // A connection; none when no service listens.
  static protocol::Descriptor knock(int port) {
    protocol::Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      socket.reset();
    return socket;
  }

 private:
  static constexpr std::uint64_t kRows = 1500, kLargeRows = 1300, kPictures = 60, kFiles = 150,
                                 kSlow = 16;
  static constexpr std::size_t kWidth = 16, kLargeWidth = 8192;

  Folder folder_;
  bool has_tls_ = false;

 public:
  const std::string socket = path("b.sock");
  const int http_port;
  const int tcp_port;
};

}  // namespace batchflow::test
