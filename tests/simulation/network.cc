#include "tests/simulation/network.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace belfry::simulation {
namespace {

// The bytes of `data` up to the last that is not zero. Notes are short texts in long messages.
size_t WithoutZeros(absl::Span<const char> data) {
  size_t size = data.size();
  for (uint64_t word; size >= sizeof(word); size -= sizeof(word)) {
    std::memcpy(&word, data.data() + size - sizeof(word), sizeof(word));
    if (word != 0) break;
  }
  while (size > 0 && data[size - 1] == 0) --size;
  return size;
}

}  // namespace

// The MPI of one rank. Requests are matched with messages by their sender and tag, in the order in which both came.
class Endpoint final : public MpiApi {
 public:
  Endpoint(Network& network, int rank)
      : network_(network), scheduler_(network.scheduler_), rank_(rank), posted_(network.size_), early_(network.size_) {
    network_.inboxes_[rank].endpoint = this;
  }
  ~Endpoint() override {
    network_.inboxes_[rank_].endpoint = nullptr;
    for (const List& list : early_) {
      for (int at = list.first; at >= 0; at = early_messages_[at].next) Network::Free(early_messages_[at].message);
    }
  }

  std::string library() const override { return "simulated MPI"; }
  int rank() const override { return rank_; }
  int size() const override { return network_.size_; }
  int local_rank() const override { return rank_; }
  size_t longest() const override { return network_.options_.longest; }

  absl::StatusOr<Request> Send(int to, int tag, absl::Span<const char> data) override {
    RETURN_IF_ERROR(Call("MPI_Isend", data.size()));
    const bool waits = data.size() > network_.options_.eager;
    const Request request =
        NewRequest({.data = const_cast<char*>(data.data()), .state = waits ? State::kOpen : State::kDone});
    network_.Push(rank_, to, tag, data, waits ? request : -1);
    return request;
  }

  absl::StatusOr<Request> Receive(int from, int tag, absl::Span<char> data) override {
    RETURN_IF_ERROR(Call("MPI_Irecv", data.size()));
    const Request request = NewRequest({.data = data.data(),
                                        .from = from,
                                        .tag = tag,
                                        .size = static_cast<uint32_t>(data.size()),
                                        .state = State::kOpen});
    Progress();
    if (!TakeEarly(request)) posted_[from].push_back({tag, request});
    return request;
  }

  absl::StatusOr<bool> Test(Request request) override {
    RETURN_IF_ERROR(Call("MPI_Test", 0));
    Progress();
    if (!moves_.empty()) FinishMoves();
    Entry& entry = requests_[request];
    if (entry.state == State::kOpen || entry.state == State::kMoving) return false;
    --used_;
    if (std::exchange(entry.state, State::kFree) == State::kDone) return true;
    return absl::InternalError(
        absl::StrCat("MPI_Test failed: a message of another size than the ", entry.size, " bytes that were expected"));
  }

  absl::Status Cancel(Request request) override {
    RETURN_IF_ERROR(Call("MPI_Cancel", 0));
    Progress();
    Entry& entry = requests_[request];
    // A message that is under way cannot be called back.
    if (entry.from < 0 || entry.state != State::kOpen) return absl::OkStatus();
    auto& posted = posted_[entry.from];
    posted.erase(std::find_if(posted.begin(), posted.end(), [&](const Posted& one) { return one.request == request; }));
    entry.state = State::kDone;
    return absl::OkStatus();
  }

  // Waits for all, like a barrier, as the libraries do.
  absl::Status Finalize() override {
    RETURN_IF_ERROR(Call("MPI_Finalize", 0));
    ++network_.finalized_;
    while (network_.finalized_ < network_.size_) {
      if (scheduler_.doomed()) return absl::InternalError("MPI_Finalize failed: the process is dead");
      scheduler_.Sleep(kMillisecond);
    }
    return absl::OkStatus();
  }

 private:
  enum class State : char { kFree, kOpen, kMoving, kDone, kWrongSize };
  struct Entry {
    char* data = nullptr;
    int from = -1;  // the sender, for a receive
    int tag = 0;
    uint32_t size = 0;
    State state = State::kFree;
  };
  // A receive, beside its tag.
  struct Posted {
    int tag;
    Request request;
  };
  // A message that came before it was asked for.
  struct Early {
    Network::Message message;
    int next = -1;
  };
  // A long message that has begun to arrive.
  struct Move {
    Request request, sender;  // the receiver's and the sender's
    Nanoseconds end;
  };

  // Places of what came from one rank, one after the other.
  struct List {
    int first = -1, last = -1;
    void Append(std::vector<Early>& all, int place) {
      all[place].next = -1;
      (first < 0 ? first : all[last].next) = place;
      last = place;
    }
    // Takes the first with the tag out of the list; -1: none.
    int Take(std::vector<Early>& all, int tag) {
      int before = -1, at = first;
      for (; at >= 0 && all[at].message.tag != tag; at = all[at].next) before = at;
      if (at < 0) return -1;
      (before < 0 ? first : all[before].next) = all[at].next;
      if (last == at) last = before;
      return at;
    }
  };

  absl::Status Call(const char* name, size_t bytes) {
    scheduler_.Spend(network_.options_.call);
    if (scheduler_.doomed()) return absl::InternalError(absl::StrCat(name, " failed: the process is dead"));
    if (bytes > network_.options_.longest) {
      return absl::InvalidArgumentError(absl::StrCat("a message of ", bytes, " bytes"));
    }
    return absl::OkStatus();
  }

  // Places are given in their order, round and round, since those of a thousand ranks fit into no cache.
  Request NewRequest(const Entry& entry) {
    if (4 * used_ >= 3 * requests_.size()) requests_.resize(std::max<size_t>(64, 2 * requests_.size()));
    const auto next = [this] { place_ = place_ + 1 < requests_.size() ? place_ + 1 : 0; };
    while (requests_[place_].state != State::kFree) next();
    const auto request = static_cast<Request>(place_);
    requests_[place_] = entry;
    ++used_;
    next();
    return request;
  }

  // Takes in what has arrived.
  void Progress() {
    Network::Inbox& inbox = network_.inboxes_[rank_];
    const Nanoseconds now = scheduler_.now();
    if (scheduler_.arrival(rank_) > now || now < next_look_) return;
    Nanoseconds first = kNever;
    size_t kept = 0;
    for (Network::Message& message : inbox.messages) {
      if (message.arrival <= now) {
        Take(message);
      } else {
        first = std::min(first, message.arrival);
        inbox.messages[kept++] = message;
      }
    }
    inbox.messages.resize(kept);
    scheduler_.SetArrival(rank_, first);
    // A look at each message takes time, so that it is looked for not at each call.
    next_look_ = now + kLookAtMessage * static_cast<Nanoseconds>(kept);
  }

  void Take(const Network::Message& message) {
    auto& posted = posted_[message.from];
    for (auto one = posted.begin(); one != posted.end(); ++one) {
      if (one->tag != message.tag) continue;
      const Request request = one->request;
      posted.erase(one);
      return Match(request, message);
    }
    if (free_early_.empty()) {
      free_early_.push_back(static_cast<int>(early_messages_.size()));
      early_messages_.emplace_back();
    }
    early_messages_[free_early_.back()].message = message;
    early_[message.from].Append(early_messages_, free_early_.back());
    free_early_.pop_back();
  }

  bool TakeEarly(Request request) {
    const Entry& entry = requests_[request];
    const int early = early_[entry.from].Take(early_messages_, entry.tag);
    if (early < 0) return false;
    Match(request, early_messages_[early].message);
    free_early_.push_back(early);
    return true;
  }

  void Match(Request request, const Network::Message& message) {
    Entry& entry = requests_[request];
    if (message.size != entry.size) {
      entry.state = State::kWrongSize;
    } else if (Network::Waits(message)) {
      entry.state = State::kMoving;
      moves_.push_back({request, message.request, network_.Moved(entry.from, rank_, scheduler_.now(), message.size)});
      return;
    } else {
      entry.state = State::kDone;
      std::memcpy(entry.data, Network::DataOf(message), message.stored);
      if (message.size > message.stored) std::memset(entry.data + message.stored, 0, message.size - message.stored);
    }
    Network::Free(message);
  }

  void FinishMoves() {
    std::erase_if(moves_, [this](Move& move) {
      Entry& entry = requests_[move.request];
      Endpoint* const sender = network_.inboxes_[entry.from].endpoint;
      if (scheduler_.now() < move.end || sender == nullptr) return false;
      // Either process may have stopped since it began.
      move.end = network_.Moved(entry.from, rank_, move.end, 0);
      if (scheduler_.now() < move.end) return false;
      std::memcpy(entry.data, sender->requests_[move.sender].data, entry.size);
      sender->requests_[move.sender].state = State::kDone;
      entry.state = State::kDone;
      return true;
    });
  }

  static constexpr Nanoseconds kLookAtMessage = 20;

  Network& network_;
  Scheduler& scheduler_;
  const int rank_;
  std::vector<Entry> requests_;                         // indexed by Request
  size_t place_ = 0, used_ = 0;                         // the next place in it to try; those that are not free
  std::vector<absl::InlinedVector<Posted, 3>> posted_;  // for each sender, in the order of the calls
  std::vector<List> early_;                             // likewise messages, in the order of their arrival
  std::vector<Early> early_messages_;
  std::vector<int> free_early_;  // places in it
  std::vector<Move> moves_;
  Nanoseconds next_look_ = 0;
};

Network::Network(Scheduler& scheduler, int size, NetworkOptions options, uint64_t seed)
    : scheduler_(scheduler), size_(size), options_(options), random_(seed), inboxes_(size), senders_(size) {
  for (Sender& sender : senders_) sender.last.resize(size);
}

Network::~Network() {
  for (const Inbox& inbox : inboxes_) {
    for (const Message& message : inbox.messages) Free(message);
  }
}

std::unique_ptr<MpiApi> Network::Open(int rank) { return std::make_unique<Endpoint>(*this, rank); }

void Network::Cut(int from, int to) {
  senders_[from].cut.resize(size_);
  senders_[from].cut[to] = true;
}

void Network::Delay(int rank, Nanoseconds by) { senders_[rank].delay += by; }

Nanoseconds Network::ArrivalOf(int from, int to, size_t bytes) {
  const bool lost = options_.lost_one_in > 0 && random_.OneIn(options_.lost_one_in);
  const Nanoseconds due = scheduler_.now() + options_.latency + random_.Below(options_.jitter + 1) +
                          static_cast<Nanoseconds>(static_cast<double>(bytes) / options_.bytes_per_ns) +
                          (lost ? options_.resend : 0) + senders_[from].delay + senders_[to].delay;
  Nanoseconds& last = senders_[from].last[to];
  return last = std::max(due, last);
}

void Network::Push(int from, int to, int tag, absl::Span<const char> data, MpiApi::Request request) {
  ++messages_;
  if (!senders_[from].cut.empty() && senders_[from].cut[to]) return;
  const bool waits = request >= 0;
  Message message{.arrival = ArrivalOf(from, to, waits ? 0 : data.size()),
                  .small = {},
                  .from = from,
                  .tag = tag,
                  .size = static_cast<uint32_t>(data.size()),
                  .stored = waits ? kWaits : static_cast<uint32_t>(WithoutZeros(data))};
  if (waits) {
    message.request = request;
  } else {
    char* place = message.small;
    if (IsLarge(message)) place = message.large = new char[message.stored];
    std::memcpy(place, data.data(), message.stored);
  }
  Inbox& inbox = inboxes_[to];
  inbox.messages.push_back(message);
  if (message.arrival < scheduler_.arrival(to)) scheduler_.SetArrival(to, message.arrival);
}

Nanoseconds Network::Moved(int from, int to, Nanoseconds begin, size_t bytes) const {
  Nanoseconds moved = begin + static_cast<Nanoseconds>(static_cast<double>(bytes) / options_.bytes_per_ns);
  for (const int process : {from, to}) {
    if (scheduler_.crashed(process)) return kNever;
    moved = std::max(moved, scheduler_.stopped_until(process));
  }
  const Sender& sender = senders_[from];
  return !sender.cut.empty() && sender.cut[to] ? kNever : moved;
}

}  // namespace belfry::simulation
