// Limits of users: counted exactly, and kept between users of one machine.
#include "runtime/service/jobs/users.h"

#include <grp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/protocol/messages.h"
#include "tests/runtime/service/command.h"
#include "tests/runtime/service/daemon.h"
#include "tests/runtime/service/early_child.h"
#include "tests/runtime/service/live.h"

namespace batchflow::test::users_test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr uid_t kStranger = 54321;

TEST_CASE("connections and unfinished frames are counted to the limit, and given back") {
  service::Quotas quotas;
  quotas.of_all.connections = 2;
  quotas.of_all.frame_bytes = 100;
  service::Users users(quotas);
  CHECK(users.connects(1));
  CHECK(users.connects(1));
  CHECK_FALSE(users.connects(1));
  CHECK(users.connects(2));  // another user's are another's
  users.disconnects(1);
  CHECK(users.connects(1));
  CHECK(users.holds(1, 60));
  CHECK(users.holds(1, 40));
  CHECK_FALSE(users.holds(1, 1));
  CHECK(users.holds(1, -101));
  CHECK(users.holds(1, 100));
}

TEST_CASE("messages beyond a second's worth wait for their turn, whatever the clock says") {
  service::Quotas quotas;
  quotas.of_all.messages_per_s = 10;
  service::Users users(quotas);
  const Instant now(1000s);
  for (int message = 0; message < 10; ++message) CHECK(users.message(1, now) == Duration(0));
  CHECK(users.message(1, now) == 100ms);
  CHECK(users.message(1, now) == 200ms);
  CHECK(users.message(2, now) == Duration(0));
  CHECK(users.message(1, now + 300ms) == Duration(0));
  CHECK(users.message(1, now + 100s) == Duration(0));
}

TEST_CASE("a limit is changed by the words of the file, within its bounds") {
  service::UserLimits limits;
  service::change_limit(limits, "jobs=4");
  service::change_limit(limits, "batch_bytes=2gib");
  service::change_limit(limits, "weight=0.5");
  CHECK(limits.jobs == 4);
  CHECK(limits.batch_bytes == Bytes{2} << 30);
  CHECK(limits.weight == 0.5);
  for (const char* wrong : {"jobs", "jobs=0", "jobs=many", "weight=0", "weight=nan", "job=1", ""}) {
    CAPTURE(wrong);
    const service::UserLimits before = limits;
    CHECK_THROWS_AS(service::change_limit(limits, wrong), ConfigError);
    CHECK(limits == before);
  }
}

struct Place {
  Folder folder;
  service::NodeConfig config;
  Place() : config(config_in(folder.path())) {
    chmod(folder.path().c_str(), 0755);
    std::filesystem::create_directory(folder.path() / "rows");
    write_rows(folder.path() / "rows" / "rows.npy", 2000, 16);
    config.datasets.push_back({"rows", folder.path() / "rows", "", "", 0});
  }
  JobPlan plan(const char* name) const {
    JobPlan made;
    made.service = config.socket;
    // By its path: then the client shows that it can read it.
    made.dataset = folder.path() / "rows";
    made.name = name;
    made.epochs = 1;
    return made;
  }
};

// Runs `what`, when it is told to, as a user that the machine does not know.
class Stranger {
 public:
  template <class What>
  explicit Stranger(What what)
      : child_([what] {
          if (setgroups(0, nullptr) != 0 || setgid(kStranger) != 0 || setuid(kStranger) != 0)
            return 99;
          return what();
        }) {}
  void check() {
    if (geteuid() != 0) {
      MESSAGE("skipped: only root can become another user");
      return;
    }
    child_.begin();
    CHECK(child_.wait() == 0);
  }

 private:
  EarlyChild child_;
};

TEST_CASE("a user has as many jobs and as much memory of batches as the quota says") {
  Place place;
  place.config.quotas.of_some[geteuid()].jobs = 1;
  const LiveService service(place.config);
  bf_loader_options options = BF_LOADER_OPTIONS_INIT;
  const std::string socket = place.config.socket;
  options.service = socket.c_str();
  options.dataset = "rows";
  options.batch_samples = 32;
  options.credits = 3;
  bf_loader* first = nullptr;
  REQUIRE(bf_loader_open(&options, &first) == BF_OK);
  CHECK(run_job(place.plan("second")).wrong.find("has 1 jobs, and may have 1") !=
        std::string::npos);

  const std::string me = std::to_string(geteuid());
  CHECK(command(socket, "quota_set", {{"user", me}, {"limits", {"jobs=8", "batch_bytes=50kb"}}})
            .at("type") == "answer");
  // 32 rows of 16 numbers and their keys and marks, in whole pages, three times.
  const json mine = command(socket, "quota_list").at("users").at(0);
  CHECK(mine.at("jobs") == 1);
  CHECK(mine.at("jobs_most") == 8);
  CHECK(mine.at("batch_bytes") == 3 * 8192);
  JobPlan third = place.plan("third");
  third.credits = 3;
  CHECK(run_job(third).wrong == "");
  JobPlan wide = place.plan("wide");
  wide.batch = 320;
  CHECK(run_job(wide).wrong.find("ask for smaller batches or fewer credits") != std::string::npos);
  CHECK(command(socket, "quota_set", {{"user", "nobody-at-all"}, {"limits", {"jobs=8"}}})
            .at("message")
            .get<std::string>()
            .find("knows no user") != std::string::npos);
  bf_loader_close(first);
}

TEST_CASE("a job that does not say how many batches it may hold has more of small ones") {
  Place place;
  const LiveService service(place.config);
  const auto credits = [&](std::uint32_t samples, bf_order order, std::uint32_t asked) {
    bf_loader_options options = BF_LOADER_OPTIONS_INIT;
    options.service = place.config.socket.c_str();
    options.dataset = "rows";
    options.batch_samples = samples;
    options.order = order;
    options.credits = asked;
    bf_loader* loader = nullptr;
    REQUIRE(bf_loader_open(&options, &loader) == BF_OK);
    bf_loader_info info = BF_LOADER_INFO_INIT;
    REQUIRE(bf_loader_info_get(loader, &info) == BF_OK);
    bf_loader_close(loader);
    return info.credits;
  };
  CHECK(credits(16, BF_RELAXED, 0) == 32);
  CHECK(credits(16, BF_STRICT, 0) == 32);
  CHECK(credits(100, BF_RELAXED, 0) == 10);  // half of an epoch of 2,000 samples
  CHECK(credits(32, BF_RELAXED, 2) == 2);
  CHECK(credits(2000, BF_RELAXED, 0) == 3);
  // What was made ahead would have old weights.
  CHECK(credits(32, BF_WEIGHTED, 0) == 3);
}

TEST_CASE("users see their own jobs and a sum, change nothing, and have their own limits") {
  Place place;
  place.config.quotas.of_all.jobs = 1;
  place.config.quotas.of_all.connections = 3;
  place.config.quotas.of_some[geteuid()] = service::UserLimits();
  const std::string socket = place.config.socket;
  Stranger stranger([&] {
    const json status = command(socket, "status");
    if (!status.at("jobs").empty() || status.at("others").at("jobs") != 1) return 1;
    if (status.dump().find("of-root") != std::string::npos) return 2;
    for (const char* name : {"drain", "reload", "describe", "explain", "journal_flush"}) {
      const json refused = command(socket, name);
      if (refused.at("type") != "error") return 3;
      if (refused.at("message").get<std::string>().find("may use '") == std::string::npos) return 9;
    }
    if (command(socket, "job_kill", {{"job", "of-root"}}).at("type") != "error") return 4;
    if (command(socket, "quota_set", {{"user", "54321"}, {"limits", {"jobs=9"}}}).at("type") !=
        "error")
      return 5;
    if (command(socket, "quota_list").at("users").size() != 1) return 6;
    if (!run_job(place.plan("of-stranger")).wrong.empty()) return 7;
    // As many connections as the quota allows, and one more.
    std::string problem;
    std::vector<protocol::Channel> channels;
    for (int i = 0; i < 3; ++i) channels.push_back(protocol::Channel::connect(socket, problem));
    const auto until = protocol::Channel::Clock::now() + 10s;
    protocol::Channel more = protocol::Channel::connect(socket, problem);
    const auto frame = more.receive(until);
    if (!frame ||
        frame->text.find("all the connections that the quota allows") == std::string::npos)
      return 8;
    return 0;
  });
  const LiveService service(place.config);
  bf_loader_options options = BF_LOADER_OPTIONS_INIT;
  options.service = socket.c_str();
  options.dataset = "rows";
  options.job = "of-root";
  options.batch_samples = 32;
  bf_loader* mine = nullptr;
  REQUIRE(bf_loader_open(&options, &mine) == BF_OK);
  stranger.check();
  // The others are none the wiser.
  CHECK(command(socket, "status").at("jobs").size() == 1);
  CHECK(run_job(place.plan("also-of-root")).wrong == "");
  bf_loader_close(mine);
}

TEST_CASE("another user's job names a dataset, and its client shows that it can read it") {
  Place place;
  const std::filesystem::path file = place.folder.path() / "rows" / "rows.npy";
  const std::filesystem::path closed = place.folder.path() / "closed";
  std::filesystem::create_directory(closed);
  std::filesystem::copy(file, closed);
  chmod(closed.c_str(), 0700);
  place.config.datasets.push_back({"file", file, "", "", 0});
  place.config.datasets.push_back({"closed", closed, "", "", 0});
  Stranger stranger([&] {
    JobPlan plan = place.plan("by-name");
    plan.dataset = "rows";
    if (!run_job(plan).wrong.empty()) return 1;
    plan.name = "by-path-of-a-file";
    plan.dataset = file;
    if (!run_job(plan).wrong.empty()) return 2;
    // A service is given no file that its job has not named.
    plan.name = "by-name-of-a-file";
    plan.dataset = "file";
    if (run_job(plan).wrong.find("name it by this path") == std::string::npos) return 3;
    plan.name = "not-allowed";
    plan.dataset = "closed";
    if (run_job(plan).wrong.find("cannot be opened: Permission denied") == std::string::npos)
      return 4;
    return 0;
  });
  const LiveService service(place.config);
  stranger.check();
}

// It would run as the service's user. remote_test.cpp has remote jobs, tests/python/test_steps.py
// those that may.
TEST_CASE("another user's function in Python is refused, and that user's other jobs are not") {
  Place place;
  Stranger stranger([&] {
    JobPlan plan = place.plan("with-a-function");
    plan.pipeline =
        R"({"kind": "pipeline", "name": "x", "steps": [{"python": "{}", "interpreter": "/bin/sh",)"
        R"( "package": "/tmp", "at": "x.py:1", "places": "[]"}]})";
    const std::string wrong = run_job(plan).wrong;
    if (wrong.find("runs as the service's user") == std::string::npos) return 1;
    if (wrong.find("it must be that user's job") == std::string::npos) return 2;
    plan.name = "without";
    plan.pipeline = R"({"kind": "pipeline", "name": "x", "steps": []})";
    return run_job(plan).wrong.empty() ? 0 : 3;
  });
  const LiveService service(place.config);
  stranger.check();
}

TEST_CASE("a folder is opened for no user that could not read it") {
  Place place;
  place.config.open_datasets = true;
  place.config.datasets.clear();
  const std::string socket = place.config.socket;
  const std::filesystem::path closed = place.folder.path() / "rows";
  chmod(closed.c_str(), 0700);
  Stranger stranger([&] {
    std::string problem;
    protocol::Channel channel = protocol::Channel::connect(socket, problem);
    const auto until = protocol::Channel::Clock::now() + 10s;
    protocol::JoinRequest request;
    request.dataset = closed;
    channel.send(protocol::encode(request), {}, until);
    const auto frame = channel.receive(until);
    return frame && frame->text.find("not_allowed") != std::string::npos ? 0 : 1;
  });
  const LiveService service(place.config);
  stranger.check();
  CHECK(command(socket, "status").at("opening").empty());
  CHECK(command(socket, "status").at("datasets").empty());
}

TEST_CASE("of a folder that another user names, all users may read all, or nothing is served") {
  Place place;
  place.config.open_datasets = true;
  place.config.datasets.clear();
  const std::filesystem::path rows = place.folder.path() / "rows";
  const std::filesystem::path open = place.folder.path() / "open";
  const std::filesystem::path below = place.folder.path() / "below";
  std::filesystem::copy(rows, open);
  std::filesystem::create_directory(below);
  std::filesystem::copy(rows, below / "private");
  chmod((below / "private").c_str(), 0700);
  chmod((rows / "rows.npy").c_str(), 0600);
  // Of two shapes, which is an error that names both.
  const std::filesystem::path mixed = place.folder.path() / "mixed";
  std::filesystem::create_directories(mixed / "secret");
  write_rows(mixed / "secret" / "a.npy", 10, 4);
  write_rows(mixed / "secret" / "b.npy", 10, 8);
  chmod((mixed / "secret").c_str(), 0700);
  const std::string socket = place.config.socket;
  Stranger stranger([&] {
    JobPlan plan = place.plan("stranger");
    if (run_job(plan).wrong.find("other users cannot read rows.npy") == std::string::npos) return 1;
    plan.dataset = below;
    if (run_job(plan).wrong.find("other users cannot read private") == std::string::npos) return 2;
    plan.dataset = mixed;
    const std::string refusal = run_job(plan).wrong;
    if (refusal.find("other users cannot read secret") == std::string::npos) return 6;
    if (refusal.find(".npy") != std::string::npos) return 7;
    plan.dataset = open;
    if (!run_job(plan).wrong.empty()) return 3;
    // What others have brought is theirs.
    if (!command(socket, "status").at("datasets").empty()) return 4;
    plan.dataset = "nothing";
    if (run_job(plan).wrong.find("there are: none") == std::string::npos) return 5;
    return 0;
  });
  const LiveService service(place.config);
  CHECK(run_job(place.plan("mine")).wrong == "");
  stranger.check();
}

TEST_CASE("frames that never end are bounded over all connections of a user") {
  Place place;
  place.config.quotas.of_some[geteuid()].frame_bytes = Bytes{1} << 20;
  const std::string socket = place.config.socket;
  const LiveService service(place.config);
  std::vector<protocol::Channel> channels;
  std::string problem;
  std::size_t ended = 0;
  for (int i = 0; i < 4; ++i) {
    channels.push_back(protocol::Channel::connect(socket, problem));
    std::string unfinished("\0\0\x10\0", 4);  // 1 MiB is to come, and most of it does
    unfinished.resize(700'000, 'x');
    std::size_t sent = 0;
    while (sent < unfinished.size()) {
      const ssize_t some = ::send(channels.back().socket().get(), unfinished.data() + sent,
                                  unfinished.size() - sent, MSG_NOSIGNAL);
      pollfd writable{channels.back().socket().get(), POLLOUT, 0};
      if (some < 0 && errno == EAGAIN && poll(&writable, 1, 5000) == 1) continue;
      if (some <= 0) break;
      sent += static_cast<std::size_t>(some);
    }
    const auto frame = channels.back().receive(protocol::Channel::Clock::now() + 1s);
    // What it was told may be lost with the rest of what it sent.
    if (frame || !channels.back().is_open()) ++ended;
  }
  CHECK(ended == 3);
  CHECK(command(socket, "status").at("type") == "answer");
}

TEST_CASE("what cannot be served is refused before anything is made of it") {
  Place place;
  const LiveService service(place.config);
  const auto answer = [&](const protocol::JoinRequest& request) {
    std::string problem;
    const auto until = protocol::Channel::Clock::now() + 10s;
    protocol::Channel channel = protocol::Channel::connect(place.config.socket, problem);
    channel.send(protocol::encode(request), {}, until);
    const auto frame = channel.receive(until);
    return frame ? frame->text : "nothing";
  };
  protocol::JoinRequest many;
  many.dataset = "rows";
  many.batch_samples = 32;
  many.world_size = 4'000'000'000;
  CHECK(answer(many).find("a job has at most 4096 on a node") != std::string::npos);
  protocol::JoinRequest listed = many;
  listed.world_size = 1;
  listed.order = Order::listed;
  CHECK(answer(listed).find("a listed order is not served") != std::string::npos);
}

}  // namespace
}  // namespace batchflow::test::users_test
