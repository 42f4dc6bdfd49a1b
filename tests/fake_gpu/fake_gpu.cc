#include "tests/fake_gpu/fake_gpu.h"

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/check.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "framework/base/tensor.h"
#include "framework/device/cpu/cpu_device.h"
#include "framework/device/cpu/cpu_event.h"
#include "tests/fake_gpu/apart_memory.h"
#include "tests/fake_gpu/fake_capture.h"
#include "tests/main/seed.h"

namespace belfry {
namespace {

constexpr uintptr_t kTag = uintptr_t{1} << 62;  // no host address has this bit
constexpr size_t kMemory = size_t{4} << 30;

template <class T>
T* Tagged(T* memory) {
  return memory == nullptr ? nullptr : reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(memory) | kTag);
}
// The host address of a device's memory or of host memory.
template <class T>
T* Real(T* memory) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(memory) & ~kTag);
}

struct CountingStream final : public Stream {
  StreamKind kind() const override { return StreamKind::kCompute; }
  absl::Status Wait(Event&, uint32_t, absl::Time) override { return absl::OkStatus(); }
  void Record(Event&, uint32_t) override {}
  absl::Status Copy(void*, const Device&, const void*, const Device&, size_t) override { return absl::OkStatus(); }
  absl::Status Synchronize() override { return absl::OkStatus(); }
  absl::Status Error() override { return absl::OkStatus(); }

  int64_t count = 0;
};

// The counts of one GPU, shared with its streams.
struct Launches {
  std::atomic<int64_t> kernels{0}, graphs{0};
  std::atomic<bool> fail_next_graph{false};
};

// The capture that this thread has begun and not ended.
thread_local std::shared_ptr<Capture> own_capture;

// The error of calls that a capture forbids: none outside of one.
absl::Status Forbidden(absl::string_view call, const std::shared_ptr<Capture>& capture = own_capture) {
  if (capture == nullptr) return absl::OkStatus();
  capture->invalid = true;
  return absl::FailedPreconditionError(absl::StrCat(call, " is not permitted while a stream is being captured"));
}

// The runs whose work is done. As on a GPU, cancelling an event wakes threads of the host that wait for it, and leaves
// alone the work on streams that does: its record has been enqueued, so it comes.
struct DoneEvent {
  CpuEvent on_host, on_streams;

  void Record(uint32_t run) {
    on_host.Record(run);
    on_streams.Record(run);
  }
};

// Two counts: the runs whose record has been requested by the host, and those whose work is done.
class FakeEvent final : public Event {
 public:
  // The capture in which it was last recorded; null if it was in none. An error if that has ended.
  absl::StatusOr<std::shared_ptr<Capture>> capture() {
    const std::unique_lock<std::mutex> lock(mutex_);
    std::shared_ptr<Capture> capture = capture_.lock();
    if (captured_ && capture == nullptr) {
      return absl::FailedPreconditionError("the event was last recorded in a capture that has ended");
    }
    return capture;
  }
  // `after`: what it comes after in the capture.
  void set_capture(const std::shared_ptr<Capture>& capture, std::vector<size_t> after = {}) {
    const std::unique_lock<std::mutex> lock(mutex_);
    captured_ = capture != nullptr;
    capture_ = capture;
    after_ = std::move(after);
  }
  std::vector<size_t> after() {
    const std::unique_lock<std::mutex> lock(mutex_);
    return after_;
  }
  absl::Status Wait(uint32_t run, absl::Time deadline) override {
    RETURN_IF_ERROR(Forbidden("waiting for an event"));
    if (captured()) return absl::FailedPreconditionError("the event was last recorded in a capture");
    return done_->on_host.Wait(run, deadline);
  }
  void Record(uint32_t run) override {
    set_capture(nullptr);
    asked_.Record(run);
    done_->Record(run);
  }
  void Cancel() override {
    asked_.Cancel();
    done_->on_host.Cancel();
  }
  void Reset(uint32_t run) override {
    set_capture(nullptr);
    asked_.Reset(run);
    done_->on_host.Reset(run);
    done_->on_streams.Reset(run);
  }
  CpuEvent& asked() { return asked_; }
  const std::shared_ptr<DoneEvent>& done() { return done_; }

 private:
  bool captured() {
    const std::unique_lock<std::mutex> lock(mutex_);
    return captured_;
  }

  std::mutex mutex_;
  bool captured_ = false;           // last recorded in a capture,
  std::weak_ptr<Capture> capture_;  // this one, if it has not ended,
  std::vector<size_t> after_;       // after these parts of it
  CpuEvent asked_;
  // Shared with the work on streams that uses it.
  const std::shared_ptr<DoneEvent> done_ = std::make_shared<DoneEvent>();
};

class FakeStream final : public Stream {
 public:
  // `apart`: null, or shared with the set of GPUs to which this one belongs.
  FakeStream(StreamKind kind, int gpu, std::shared_ptr<ApartMemory> apart, std::shared_ptr<Launches> launches)
      : kind_(kind), gpu_(gpu), apart_(std::move(apart)), launches_(std::move(launches)), thread_([this] { Work(); }) {}
  ~FakeStream() override {
    Enqueue(nullptr);
    thread_.join();
  }
  StreamKind kind() const override { return kind_; }
  const void* capture() const { return capture_.get(); }

  absl::Status Wait(Event& event, uint32_t run, absl::Time deadline) override {
    auto* fake = dynamic_cast<FakeEvent*>(&event);
    if (fake == nullptr) return event.Wait(run, deadline);
    RETURN_IF_ERROR(fake->asked().Wait(run, deadline));
    ASSIGN_OR_RETURN(const std::shared_ptr<Capture> capture, fake->capture());
    if (capture != capture_) {
      if (capture_ != nullptr) return absl::FailedPreconditionError("waits for what is not of this capture");
      capture_ = capture;
      capture_->others[this] = false;
    }
    if (capture_ != nullptr) {
      std::vector<size_t>& last = capture_->last[this];
      for (const size_t part : fake->after()) last.push_back(part);
      return absl::OkStatus();
    }
    Enqueue([done = fake->done(), run] { return done->on_streams.Wait(run, absl::InfiniteFuture()); });
    return absl::OkStatus();
  }
  void Record(Event& event, uint32_t run) override {
    auto* fake = dynamic_cast<FakeEvent*>(&event);
    BELFRY_CHECK(fake != nullptr);
    if (capture_ != nullptr) {
      fake->set_capture(capture_, capture_->last[this]);
      if (const auto other = capture_->others.find(this); other != capture_->others.end()) other->second = true;
      return fake->asked().Record(run);
    }
    fake->set_capture(nullptr);
    // The work is enqueued first, because a thread that sees the request may wait for it on its own stream.
    Enqueue([done = fake->done(), run] {
      done->Record(run);
      return absl::OkStatus();
    });
    fake->asked().Record(run);
  }
  absl::Status Copy(void* to, const Device&, const void* from, const Device&, size_t bytes) override {
    if (bytes == 0) return absl::OkStatus();
    const auto copy = [=] {
      std::memcpy(Real(to), Real(from), bytes);
      return absl::OkStatus();
    };
    if (apart_ == nullptr) {
      Enqueue(copy);
    } else {
      Enqueue([apart = apart_, copy] { return apart->RunCopy(copy); });
    }
    return absl::OkStatus();
  }
  absl::Status Synchronize() override {
    RETURN_IF_ERROR(Forbidden("synchronising", CaptureAround()));
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return queue_.empty() && !busy_; });
    return std::exchange(error_, absl::OkStatus());
  }
  absl::Status Error() override {
    RETURN_IF_ERROR(Forbidden("asking for errors", CaptureAround()));
    const std::unique_lock<std::mutex> lock(mutex_);
    return std::exchange(error_, absl::OkStatus());
  }

  absl::Status BeginCapture() override {
    if (capture_ != nullptr || own_capture != nullptr) return absl::FailedPreconditionError("captures already");
    capture_ = own_capture = std::make_shared<Capture>();
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<CapturedWork>> EndCapture() override;

  Launches& launches() { return *launches_; }
  void EnqueueKernel(std::function<absl::Status()> kernel) {
    if (capture_ == nullptr) ++launches_->kernels;
    if (apart_ == nullptr) return Enqueue(std::move(kernel));
    Enqueue([apart = apart_, gpu = gpu_, kernel = std::move(kernel)] { return apart->RunKernel(gpu, kernel); });
  }
  void Enqueue(std::function<absl::Status()> work) {
    if (capture_ != nullptr) return CaptureTogether({this}, std::move(work));
    const std::unique_lock<std::mutex> lock(mutex_);
    queue_.push_back(std::move(work));
    changed_.notify_all();
  }

  // As the function of this name.
  static void CaptureTogether(const std::vector<FakeStream*>& streams, std::function<absl::Status()> work) {
    Capture& capture = *streams[0]->capture_;
    CapturedPart part{std::move(work), {}};
    for (FakeStream* stream : streams) {
      std::vector<size_t>& last = capture.last[stream];
      part.after.insert(part.after.end(), last.begin(), last.end());
      last = {capture.parts.size()};
      if (const auto other = capture.others.find(stream); other != capture.others.end()) other->second = false;
    }
    capture.parts.push_back(std::move(part));
  }

 private:
  // A capture that forbids asking for the state of the stream: its own, or that of the calling thread.
  std::shared_ptr<Capture> CaptureAround() const { return capture_ != nullptr ? capture_ : own_capture; }
  void Work() {
    std::minstd_rand random(TestSeed());
    while (true) {
      std::function<absl::Status()> work;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return !queue_.empty(); });
        work = std::move(queue_.front());
        queue_.pop_front();
        busy_ = true;
      }
      if (work == nullptr) return;
      if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 60));
      const absl::Status status = work();
      const std::unique_lock<std::mutex> lock(mutex_);
      busy_ = false;
      error_.Update(status);
      changed_.notify_all();
    }
  }

  const StreamKind kind_;
  const int gpu_;
  const std::shared_ptr<ApartMemory> apart_;
  const std::shared_ptr<Launches> launches_;
  std::shared_ptr<Capture> capture_;  // null: work runs at once
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<absl::Status()>> queue_;
  bool busy_ = false;
  absl::Status error_;
  std::thread thread_;  // last, because it uses the other members
};

class FakeCapturedWork final : public CapturedWork {
 public:
  explicit FakeCapturedWork(std::vector<CapturedPart> parts) : parts_(std::move(parts)), random_(TestSeed()) {}
  absl::Status Enqueue(Stream& stream) override {
    auto& fake = static_cast<FakeStream&>(stream);
    if (fake.launches().fail_next_graph.exchange(false)) return absl::InternalError("the graph was not launched");
    ++fake.launches().graphs;
    for (const size_t part : OrderOf(parts_, random_)) fake.Enqueue(parts_[part].work);
    return absl::OkStatus();
  }

 private:
  const std::vector<CapturedPart> parts_;
  std::minstd_rand random_;
};

absl::StatusOr<std::unique_ptr<CapturedWork>> FakeStream::EndCapture() {
  if (capture_ == nullptr) return absl::FailedPreconditionError("does not capture");
  if (capture_ != own_capture) return absl::FailedPreconditionError("another thread captures");
  own_capture = nullptr;
  const std::shared_ptr<Capture> capture = std::exchange(capture_, nullptr);
  bool whole = capture->AllComeBefore(this);
  for (const auto& [stream, joined] : capture->others) {
    static_cast<FakeStream*>(stream)->capture_ = nullptr;
    whole = whole && joined;
  }
  if (capture->invalid) return absl::FailedPreconditionError("a call invalidated the capture");
  if (!whole) return absl::FailedPreconditionError("a stream has not joined the one that records");
  return std::make_unique<FakeCapturedWork>(std::move(capture->parts));
}

class FakeGpu final : public Device {
 public:
  FakeGpu(int id, bool alone, bool tagged, std::shared_ptr<ApartMemory> apart, KernelCompiler compiler,
          const MathMode& math)
      : alone_(alone),
        tagged_(tagged),
        compiler_(std::move(compiler)),
        math_(math),
        apart_(std::move(apart)),
        name_(DeviceName::Full("localhost", 0, 0, "GPU", id)) {}
  const DeviceName& name() const override { return name_; }
  std::string description() const override { return absl::StrCat("device: ", *name_.id, ", name: fake"); }
  int threads() const override { return 1; }
  bool asynchronous() const override { return true; }
  bool only_gpu() const override { return alone_; }
  MathMode math() const override { return math_; }
  int physical_id() const override { return *name_.id; }
  DeviceCounters counters() const override { return {used_, peak_, allocations_, kMemory}; }
  absl::StatusOr<void*> Allocate(size_t bytes) override {
    if (bytes == 0) return nullptr;
    RETURN_IF_ERROR(Forbidden("allocating"));
    if (bytes > kMemory - used_) {
      return absl::ResourceExhaustedError(
          absl::StrCat(name_.ToString(), " cannot allocate ", bytes, " bytes: ", used_.load(), " bytes are in use"));
    }
    used_ += bytes;
    peak_ = std::max(peak_.load(), used_.load());
    ++allocations_;
    if (apart_ != nullptr) return apart_->Allocate(physical_id(), bytes);
    return tagged_ ? Tagged(AllocateAligned(bytes)) : AllocateAligned(bytes);
  }
  void Deallocate(void* memory, size_t bytes) override {
    if (apart_ != nullptr) {
      apart_->Free(memory);
    } else {
      FreeAligned(Real(memory));
    }
    used_ -= bytes;
  }
  absl::StatusOr<void*> AllocateHost(size_t bytes) override {
    RETURN_IF_ERROR(Forbidden("allocating"));
    return AllocateAligned(bytes);
  }
  void DeallocateHost(void* memory, size_t) override { FreeAligned(memory); }
  absl::StatusOr<std::unique_ptr<Stream>> NewStream(StreamKind kind) override {
    return std::make_unique<FakeStream>(kind, physical_id(), apart_, launches_);
  }
  std::unique_ptr<Event> NewEvent() override { return std::make_unique<FakeEvent>(); }
  bool CompilesKernels() override { return compiler_ != nullptr; }
  absl::StatusOr<std::shared_ptr<const CompiledKernel>> CompileKernel(const std::string& source) override {
    return compiler_ == nullptr ? Device::CompileKernel(source) : compiler_(source);
  }
  Launches& launches() const { return *launches_; }
  bool Reaches(const FakeGpu& other) const {
    return apart_ == nullptr || apart_->Reaches(physical_id(), other.physical_id());
  }

 private:
  const bool alone_, tagged_;
  const KernelCompiler compiler_;
  const MathMode math_;
  const std::shared_ptr<ApartMemory> apart_;
  const DeviceName name_;
  const std::shared_ptr<Launches> launches_ = std::make_shared<Launches>();
  std::atomic<size_t> used_{0}, peak_{0};
  std::atomic<int64_t> allocations_{0};
};

// Runs the CPU's kernel on the stream's thread.
absl::StatusOr<Kernel> OnStream(const KernelFactory& make, const KernelSpec& spec) {
  absl::StatusOr<Kernel> kernel = make(spec);
  if (!kernel.ok()) return kernel;
  std::string name(spec.name);
  const size_t inputs = spec.inputs.size(), outputs = spec.outputs.size();
  return Kernel{
      [run = std::make_shared<KernelFunction>(std::move(kernel->run)), name, inputs, outputs](const KernelContext& at) {
        std::vector<const void*> from(inputs);
        std::vector<void*> to(outputs);
        for (size_t i = 0; i < inputs; ++i) from[i] = Real(at.inputs[i]);
        for (size_t i = 0; i < outputs; ++i) to[i] = Real(at.outputs[i]);
        static_cast<FakeStream*>(at.stream)->EnqueueKernel([run, name, from, to, workspace = Real(at.workspace),
                                                            number = at.run] {
          const ScopedParallelThreads one(1);
          const absl::Status status = (*run)({from.data(), to.data(), workspace, number, nullptr});
          return status.ok() ? status : absl::Status(status.code(), absl::StrCat(status.message(), " (", name, ")"));
        });
        return absl::OkStatus();
      },
      kernel->workspace_bytes, kernel->uses_run};
}

}  // namespace

std::unique_ptr<Stream> NewCountingStream() { return std::make_unique<CountingStream>(); }

int64_t CountOf(const Stream& counting) { return dynamic_cast<const CountingStream&>(counting).count; }

void EnqueueOnFakeGpu(Stream& stream, std::function<absl::Status()> work) {
  if (auto* const counting = dynamic_cast<CountingStream*>(&stream); counting != nullptr) {
    ++counting->count;
    return;
  }
  static_cast<FakeStream&>(stream).EnqueueKernel(std::move(work));
}

FakeGpuLaunches LaunchesOn(const Device& fake) {
  const Launches& launches = static_cast<const FakeGpu&>(fake).launches();
  return {launches.kernels, launches.graphs};
}

void FailNextGraph(Device& fake) { static_cast<FakeGpu&>(fake).launches().fail_next_graph = true; }

void CaptureTogether(const std::vector<Stream*>& streams, std::function<absl::Status()> work) {
  std::vector<FakeStream*> fakes;
  for (Stream* stream : streams) fakes.push_back(static_cast<FakeStream*>(stream));
  FakeStream::CaptureTogether(fakes, std::move(work));
}

bool FakeGpuReaches(const Device& from, const Device& to) {
  return static_cast<const FakeGpu&>(from).Reaches(static_cast<const FakeGpu&>(to));
}

const void* CaptureOfFakeGpu(const Stream& stream) { return static_cast<const FakeStream&>(stream).capture(); }

DeviceSet OpenFakeGpus(int gpus, bool tagged, std::vector<std::pair<int, int>> apart, KernelCompiler compiler,
                       const MathMode& math) {
  std::shared_ptr<ApartMemory> memory;
  if (!apart.empty()) memory = std::make_shared<ApartMemory>(std::move(apart));
  std::vector<std::unique_ptr<Device>> devices = OpenCpuDevices(1, {.cpu_threads = 1});
  for (int i = 0; i < gpus; ++i)
    devices.push_back(std::make_unique<FakeGpu>(i, gpus == 1, tagged, memory, compiler, math));
  return DeviceSet(std::move(devices));
}

void AddFakeGpuKernels(OpRegistry& registry) {
  std::vector<std::pair<std::string, std::vector<KernelDef>>> added;
  for (const auto& [name, op] : registry.ops()) {
    std::vector<KernelDef> kernels;
    for (const KernelDef& def : op.kernels) {
      if (def.device_type != "CPU") continue;
      kernels.push_back({"GPU", def.dtype, [make = def.make](const KernelSpec& spec) { return OnStream(make, spec); }});
    }
    if (!kernels.empty()) added.emplace_back(name, std::move(kernels));
  }
  for (auto& [name, kernels] : added) registry.AddKernels(name, std::move(kernels));
}

absl::StatusOr<std::unique_ptr<Collective>> MakeFakeGpuCollective(CollectiveSpec spec) {
  auto real = std::make_shared<CollectiveSpec>(spec);
  for (CollectiveRank& rank : real->ranks) {
    rank.data = Real(rank.data);
    rank.weight = Real(rank.weight);
  }
  return MakeSlicedCollective(
      std::move(spec), [real](const CollectiveSpec&, const CollectivePart& part, Stream& stream) {
        static_cast<FakeStream&>(stream).Enqueue([=] { return ReduceOnHost(*real, part.begin, part.end); });
        return absl::OkStatus();
      });
}

}  // namespace belfry
