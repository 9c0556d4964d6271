// Clients that come and go in masses, and clients that write what no client writes: the service
// serves all others meanwhile, and has nothing left of them afterwards.
#include <sys/socket.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <set>

#include "core/base/random.h"
#include "runtime/protocol/messages.h"
#include "runtime/protocol/records.h"
#include "runtime/protocol/ring_files.h"
#include "tests/runtime/service/command.h"
#include "tests/runtime/service/early_child.h"
#include "tests/runtime/service/live.h"

namespace batchflow::test::crowd_test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr std::uint64_t kRows = 20000;

struct Place {
  Folder folder;
  service::NodeConfig config;
  Place() : config(config_in(folder.path())) {
    std::filesystem::create_directory(folder.path() / "rows");
    write_rows(folder.path() / "rows" / "rows.npy", kRows, 16);
    config.datasets.push_back({"rows", folder.path() / "rows", "", "", 0, {}});
  }
};

protocol::Channel::Clock::time_point soon() {
  return protocol::Channel::Clock::now() + 20s;
}

// A client by hand, as far as it likes.
struct Raw {
  protocol::Channel channel;
  protocol::Rings rings;
  protocol::Descriptor doorbell;

  explicit Raw(const std::string& socket) {
    std::string problem;
    channel = protocol::Channel::connect(socket, problem);
  }
  bool hello() {
    return channel.send(
               protocol::encode(protocol::Hello{protocol::kProtocolVersion, "by hand", 1, ""}), {},
               soon()) &&
           channel.receive(soon()).has_value();
  }
  bool ask_to_join() {
    protocol::JoinRequest request;
    request.dataset = "rows";
    request.batch_samples = 32;
    request.credits = 2;
    return channel.send(protocol::encode(request), {}, soon());
  }
  bool join() {
    if (!hello() || !ask_to_join()) return false;
    auto frame = channel.receive(soon());
    std::string problem;
    const auto answer = frame ? protocol::decode_join_answer(frame->text, problem)
                              : std::optional<protocol::JoinAnswer>();
    if (!answer || frame->descriptors.size() != 4) return false;
    rings = protocol::map_rings(frame->descriptors[0], frame->descriptors[1], answer->ring_bytes,
                                problem);
    doorbell = std::move(frame->descriptors[2]);
    return static_cast<bool>(rings);
  }
};

// What each open descriptor of this process, service and clients alike, stands for. Slabs of
// batches are kept for the next job, within the budget, and do not count.
std::multiset<std::string> descriptors() {
  std::multiset<std::string> open;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (gone || target == "/memfd:batchflow (deleted)") continue;
    open.insert(target.substr(0, target.find_first_of("[(")));  // without inode numbers
  }
  return open;
}

std::string more(const std::multiset<std::string>& now, const std::multiset<std::string>& before) {
  std::vector<std::string> added;
  std::ranges::set_difference(now, before, std::back_inserter(added));
  return fmt::format("{}", fmt::join(added, " "));
}

template <class Holds>
bool comes_true(Holds holds) {
  const auto until = std::chrono::steady_clock::now() + 60s;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

}  // namespace

TEST_CASE("a thousand clients come, get as far as they like, and leave nothing behind") {
  const Place place;
  const std::string socket = place.config.socket;
  const LiveService service(place.config);
  // One job has made what is made once.
  JobPlan plan;
  plan.service = socket;
  plan.epochs = 1;
  CHECK(run_job(plan).wrong == "");
  REQUIRE(comes_true([&] { return command(socket, "status").at("jobs").empty(); }));
  const auto before = descriptors();

  Handed handed;
  plan.epochs = 3;
  plan.pause_us = 500;
  std::thread job([&] { handed = run_job(plan); });
  Random random(1);
  std::uint64_t joined = 0;
  for (int wave = 0; wave < 10; ++wave) {
    std::vector<Raw> clients;
    for (int i = 0; i < 100; ++i) {
      Raw& one = clients.emplace_back(socket);
      switch (random.below(5)) {
        case 0:
          break;
        case 1:
          CHECK(one.hello());
          break;
        case 2:  // gone before the answer
          CHECK((one.hello() && one.ask_to_join()));
          break;
        case 3:  // half a frame
          CHECK(send(one.channel.socket().get(), "\x40\0\0\0half", 8, MSG_NOSIGNAL) == 8);
          break;
        default:
          if (joined < 100 && one.join()) ++joined;
          break;
      }
    }
  }
  job.join();
  CHECK(joined == 100);
  CHECK(handed.wrong == "");
  for (const auto& [epoch, keys] : handed.epochs) CHECK(is_whole(keys, kRows));
  CHECK(comes_true([&] {
    const json status = command(socket, "status");
    return status.at("jobs").empty() && status.at("connections") <= 1;
  }));
  std::string left;
  CHECK_MESSAGE(comes_true([&] { return (left = more(descriptors(), before)).empty(); }), left);
  CHECK(command(socket, "status").at("protocol_errors") == 0);
}

TEST_CASE("a job that scribbles over its rings is ended, and costs no other a sample") {
  const Place place;
  const std::string socket = place.config.socket;
  const LiveService service(place.config);
  JobPlan plan;
  plan.service = socket;
  plan.epochs = 3;
  plan.pause_us = 500;
  Handed handed;
  std::thread job([&] { handed = run_job(plan); });
  std::uint64_t ended = 0;
  for (std::uint64_t round = 0; round < 20; ++round) {
    CAPTURE(round);
    Raw one(socket);
    REQUIRE(one.join());
    Random random(round);
    auto* head = reinterpret_cast<protocol::RingFileHead*>(one.rings.job_file.memory().data());
    const std::span<std::byte> memory = one.rings.job_file.memory();
    const auto until = std::chrono::steady_clock::now() + 20s;
    bool over = false;
    while (!over && std::chrono::steady_clock::now() < until) {
      for (int i = 0; i < 100; ++i) {
        const std::uint64_t at = protocol::kRingRecordsAt +
                                 random.below((memory.size() - protocol::kRingRecordsAt) / 8) * 8;
        const std::uint64_t word = random.below(3) == 0 ? random.draw() : random.below(200);
        std::memcpy(memory.data() + at, &word, sizeof word);
      }
      head->writer.tail.fetch_add(random.below(8) * 8);
      if (random.below(4) == 0) head->reader.head.store(random.draw());
      protocol::ring_doorbell(one.doorbell);
      while (const auto frame = one.channel.receive(protocol::Channel::kAtOnce)) {
        std::string problem;
        over = over || protocol::decode_refused(frame->text, problem).has_value();
      }
      over = over || !one.channel.is_open();
    }
    ended += over ? 1 : 0;
  }
  job.join();
  CHECK(ended == 20);
  CHECK(handed.wrong == "");
  for (const auto& [epoch, keys] : handed.epochs) CHECK(is_whole(keys, kRows));
  CHECK(comes_true([&] { return command(socket, "status").at("jobs").empty(); }));
}

// At any moment of a batch: with one in its hands, or several.
TEST_CASE("clients that are killed in mid-batch free what they held; shared memory does not grow") {
  const Place place;
  const std::string socket = place.config.socket;
  JobPlan plan;
  plan.service = socket;
  plan.epochs = 2;
  std::vector<EarlyChild> clients;
  for (int round = 0; round < 10; ++round) {
    clients.emplace_back([plan, round] {
      JobPlan mine = plan;
      mine.epochs = 1000;
      mine.keep = round % 2 == 1;  // and copies are made for it
      mine.batches_most = 1'000'000;
      run_job(mine);
      return 0;
    });
  }
  const LiveService service(place.config);
  Handed handed;
  std::thread job([&] { handed = run_job(plan); });
  for (int round = 0; round < 10; ++round) {
    CAPTURE(round);
    EarlyChild& client = clients[static_cast<std::size_t>(round)];
    client.begin();
    std::this_thread::sleep_for(std::chrono::milliseconds(30 + 10 * round));
    CHECK(client.kill(SIGKILL) == -SIGKILL);
  }
  job.join();
  CHECK(handed.wrong == "");
  for (const auto& [epoch, keys] : handed.epochs) CHECK(is_whole(keys, kRows));
  CHECK(comes_true([&] {
    const json status = command(socket, "status");
    return status.at("jobs").empty() && status.at("connections") <= 1;
  }));
}

}  // namespace batchflow::test::crowd_test
