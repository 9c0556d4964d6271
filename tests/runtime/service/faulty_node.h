// A node on which the service fails or is killed at named places while jobs of every kind run on
// it, and what came of it. The service and each job are processes of their own; this one has no
// thread.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "tests/runtime/service/command.h"
#include "tests/runtime/service/faulty_place.h"
#include "tests/runtime/service/faulty_ranks.h"

namespace batchflow::test {

struct PlaceCount {
  std::uint64_t reached = 0;
  std::uint64_t acted = 0;
};
using PlaceCounts = std::map<std::string, PlaceCount>;

// The sums over all processes that have reported to the file; the last report of each counts.
inline PlaceCounts read_report(const std::filesystem::path& file) {
  std::map<std::pair<int, std::string>, PlaceCount> last;
  std::ifstream in(file);
  int process = 0;
  std::string name;
  PlaceCount count;
  while (in >> process >> name >> count.reached >> count.acted) last[{process, name}] = count;
  PlaceCounts sums;
  for (const auto& [key, one] : last) {
    sums[key.second].reached += one.reached;
    sums[key.second].acted += one.acted;
  }
  return sums;
}

struct FaultyRun {
  PlaceCounts service, jobs;
  std::set<std::string> told;  // errors that jobs were told
  std::string wrong;           // empty: each job had each sample once, and nothing was left behind
  std::string said;            // by the service
  bool was_killed = false;     // the service
  int jobs_killed = 0;
  bool began = true;  // else the service said why it could not, with 1 or 2
};

class FaultyNode {
 public:
  FaultyNode() = default;
  ~FaultyNode() { stop(SIGKILL); }
  FaultyNode(const FaultyNode&) = delete;

  // Runs the scenario's jobs with these failpoints in the service or in the jobs.
  FaultyRun run(Scenario scenario, const std::string& in_service, const std::string& in_jobs) {
    scenario_ = scenario;
    run_ = {};
    for (const char* const old : {"state", "drive", "log", "report", "jobs"})
      std::filesystem::remove_all(path(old));
    std::filesystem::create_directory(path("jobs"));
    place_.write_node_file(scenario_);
    start(in_service.empty() ? "" : in_service + ",report=" + path("report"));
    if (!listens()) start_again();
    for (const FaultyJob& job : place_.jobs(scenario_)) begin(job, in_jobs);
    if (scenario_ != Scenario::spill) operate();
    wait_for_jobs();
    check_leftovers();
    run_.service = read_report(path("report"));
    run_.jobs = read_report(path("jobs") + "/report");
    std::ifstream log(path("log"));
    run_.said.assign(std::istreambuf_iterator<char>(log), {});
    return run_;
  }

  std::string path(const std::string& name) const { return place_.path(name); }
  bool has_tls() const { return place_.has_tls(); }

 private:
  bool listens_remotely() const {
    return scenario_ == Scenario::spill || FaultyPlace::knock(place_.tcp_port);
  }

  // --------------------------------------------------------------------------- the service ----

  void start(const std::string& failpoints) {
    service_ = fork();
    REQUIRE(service_ >= 0);
    if (service_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int log = open(path("log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(log, STDERR_FILENO);
    if (!failpoints.empty()) setenv("BATCHFLOW_FAILPOINTS", failpoints.c_str(), 1);
    execl(BATCHFLOWD, BATCHFLOWD, "--config", path("node.yaml").c_str(), nullptr);
    _exit(127);
  }
  // False: it has ended.
  bool listens() {
    for (int tries = 0; tries < 4000; ++tries) {
      std::string problem;
      if (protocol::Channel::connect(place_.socket, problem).is_open() && listens_remotely())
        return true;
      if (has_ended()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    run_.wrong = "the service does not listen after 20 s";
    return true;
  }
  bool has_ended() {
    int status = 0;
    if (service_ <= 0 || waitpid(service_, &status, WNOHANG) != service_) return false;
    service_ = -1;
    const bool by_kill = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    run_.was_killed = run_.was_killed || by_kill;
    if (!by_kill && !(WIFEXITED(status) && WEXITSTATUS(status) > 0 && WEXITSTATUS(status) < 3))
      run_.wrong = fmt::format("the service ended with status {:#x}", status);
    return true;
  }
  // Without failpoints.
  void start_again() {
    run_.began = run_.was_killed;
    start("");
    if (!listens()) run_.wrong = "the service cannot be started again";
  }
  // Its exit code, or minus the signal.
  int stop(int signal) {
    if (service_ <= 0) return -1;
    ::kill(service_, signal);
    int status = 0;
    for (int tries = 0; tries < 4000 && waitpid(service_, &status, WNOHANG) == 0; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (tries == 3000) ::kill(service_, SIGKILL);
    }
    service_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  // What operators do meanwhile. Each may fail, or find no service.
  void operate() {
    command(place_.socket, "reload");
    command(place_.socket, "journal_flush");
    for (int tries = 0; tries < 2; ++tries) {
      const protocol::Descriptor page = FaultyPlace::knock(place_.http_port);
      const timeval most{2, 0};
      setsockopt(page.get(), SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
      const std::string question = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
      char first;
      if (page && send(page.get(), question.data(), question.size(), MSG_NOSIGNAL) > 0)
          [[maybe_unused]]
        const ssize_t answer = recv(page.get(), &first, 1, 0);
    }
  }

  // ------------------------------------------------------------------------------ the jobs ----

  std::string file_of(const FaultyJob& job) const { return path("jobs") + "/" + job.name; }
  void begin(const FaultyJob& job, const std::string& failpoints) {
    const std::string with =
        failpoints.empty() ? "" : failpoints + ",report=" + path("jobs") + "/report";
    if (job.ranks > 1) {
      ranks_.emplace_back(std::make_unique<FaultyRanks>(job, file_of(job)))->start(with);
      return;
    }
    running_[start_job(job, file_of(job), with)] = job;
  }

  void wait_for_jobs() {
    while (!running_.empty() || !ranks_.empty()) {
      int status = 0;
      bool idle = true;
      for (const auto& one : ranks_) idle = !one->look(run_.jobs_killed) && idle;
      std::erase_if(ranks_, [&](const auto& one) {
        if (!one->is_over()) return false;
        const std::vector<std::string> told = one->told();
        run_.told.insert(told.begin(), told.end());
        if (const std::string wrong = one->wrong(); !wrong.empty())
          run_.wrong = fmt::format("{}; {}", wrong, fmt::join(told, "; "));
        return true;
      });
      for (const auto& [process, job] : std::map(running_)) {
        if (waitpid(process, &status, WNOHANG) != process) continue;
        idle = false;
        running_.erase(process);
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
          ++run_.jobs_killed;
          begin(job, "");
        } else {
          look_at(job, status);
        }
      }
      if (has_ended()) start_again();
      if (idle) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  void look_at(const FaultyJob& job, int status) {
    std::ifstream in(file_of(job));
    std::string line;
    if (status != 0) {
      run_.wrong = fmt::format("job {} ended with status {:#x}", job.name, status);
    } else if (std::getline(in, line) && line != "whole") {
      run_.wrong = fmt::format("job {}: {}", job.name, line);
    }
    while (std::getline(in, line)) {
      run_.told.insert(line);
      if (!run_.wrong.empty()) run_.wrong += "; " + line;
    }
  }

  // ------------------------------------------------------------------- what is left behind ----

  // Descriptors of the service, by what they are.
  std::map<std::string, int> descriptors() const {
    std::map<std::string, int> all;
    std::error_code gone;
    for (const auto& entry :
         std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", service_), gone)) {
      const std::string to = std::filesystem::read_symlink(entry.path(), gone);
      if (to.starts_with("socket:")) ++all["sockets"];
      if (to.starts_with("/memfd:batchflow-down") || to.starts_with("/memfd:batchflow-up") ||
          to.starts_with("/memfd:batchflow-pace"))
        ++all["rings"];
    }
    return all;
  }
  void check_leftovers() {
    // Its own, by two descriptors; those of HTTP and of remote jobs, and one for each process of a
    // step.
    const int sockets = scenario_ == Scenario::spill ? 2 : 2 + 2 + 2;
    std::map<std::string, int> left;
    for (int tries = 0; tries < 600; ++tries) {
      left = descriptors();
      if (left["rings"] == 0 && left["sockets"] <= sockets) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (left["rings"] != 0 || left["sockets"] > sockets)
      run_.wrong +=
          fmt::format("; {} ring files and {} sockets are left", left["rings"], left["sockets"]);
    if (const int code = stop(SIGTERM); code != 0)
      run_.wrong += fmt::format("; ended with {}", code);
    if (std::filesystem::exists(place_.socket)) run_.wrong += "; its socket is left";
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path("state"))) {
      const std::string name = entry.path().filename();
      if (name.find(".tmp-") != name.npos) run_.wrong += "; " + name + " is left";
    }
    if (std::filesystem::exists(path("drive")) && !std::filesystem::is_empty(path("drive")))
      run_.wrong += "; the spill folder is not empty";
  }

  FaultyPlace place_;
  Scenario scenario_ = Scenario::ring;
  pid_t service_ = -1;
  std::map<pid_t, FaultyJob> running_;
  std::vector<std::unique_ptr<FaultyRanks>> ranks_;
  FaultyRun run_;
};

}  // namespace batchflow::test
