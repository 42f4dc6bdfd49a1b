#include "tests/fake_gpu/fake_gpu.h"

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/check.h"
#include "framework/base/parallel.h"
#include "framework/base/tensor.h"
#include "framework/device/cpu/cpu_device.h"
#include "framework/device/cpu/cpu_event.h"
#include "tests/fake_gpu/apart_memory.h"
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

class FakeStream;

struct CountingStream final : public Stream {
  StreamKind kind() const override { return StreamKind::kCompute; }
  absl::Status Wait(Event&, uint32_t, absl::Time) override { return absl::OkStatus(); }
  void Record(Event&, uint32_t) override {}
  absl::Status Copy(void*, const Device&, const void*, const Device&, size_t) override { return absl::OkStatus(); }
  absl::Status Synchronize() override { return absl::OkStatus(); }
  absl::Status Error() override { return absl::OkStatus(); }

  int64_t count = 0;
};

// Work given to streams while one of them captured, in the order of the calls. Used by the capturing thread.
struct Capture {
  std::vector<std::function<absl::Status()>> work;
  std::map<FakeStream*, bool> others;  // streams that joined the capture; true if their last operation was a record
};

// Two counts: the runs whose record has been requested by the host, and those whose work is done.
class FakeEvent final : public Event {
 public:
  // The capture in which it was last recorded.
  std::shared_ptr<Capture> capture() {
    const std::unique_lock<std::mutex> lock(mutex_);
    return capture_.lock();
  }
  void set_capture(const std::shared_ptr<Capture>& capture) {
    const std::unique_lock<std::mutex> lock(mutex_);
    capture_ = capture;
  }
  absl::Status Wait(uint32_t run, absl::Time deadline) override { return done_->Wait(run, deadline); }
  void Record(uint32_t run) override {
    asked_.Record(run);
    done_->Record(run);
  }
  void Cancel() override {
    asked_.Cancel();
    done_->Cancel();
  }
  void Reset(uint32_t run) override {
    asked_.Reset(run);
    done_->Reset(run);
  }
  CpuEvent& asked() { return asked_; }
  const std::shared_ptr<CpuEvent>& done() { return done_; }

 private:
  std::mutex mutex_;
  std::weak_ptr<Capture> capture_;
  CpuEvent asked_;
  const std::shared_ptr<CpuEvent> done_ = std::make_shared<CpuEvent>();  // shared with the work on streams that uses it
};

class FakeStream final : public Stream {
 public:
  // `apart`: null, or shared with the set of GPUs to which this one belongs.
  FakeStream(StreamKind kind, int gpu, std::shared_ptr<ApartMemory> apart)
      : kind_(kind), gpu_(gpu), apart_(std::move(apart)), thread_([this] { Work(); }) {}
  ~FakeStream() override {
    Enqueue(nullptr);
    thread_.join();
  }
  StreamKind kind() const override { return kind_; }
  const void* capture() const { return capture_.get(); }

  absl::Status Wait(Event& event, uint32_t run, absl::Time deadline) override {
    auto* fake = dynamic_cast<FakeEvent*>(&event);
    if (fake == nullptr) return event.Wait(run, deadline);
    const absl::Status asked = fake->asked().Wait(run, deadline);
    if (!asked.ok()) return asked;
    if (const std::shared_ptr<Capture> capture = fake->capture(); capture != capture_) {
      if (capture_ != nullptr) return absl::FailedPreconditionError("waits for what is not of this capture");
      capture_ = capture;
      capture_->others[this] = false;
      return absl::OkStatus();
    }
    if (capture_ != nullptr) return absl::OkStatus();
    Enqueue([done = fake->done(), run] { return done->Wait(run, absl::InfiniteFuture()); });
    return absl::OkStatus();
  }
  void Record(Event& event, uint32_t run) override {
    auto* fake = dynamic_cast<FakeEvent*>(&event);
    BELFRY_CHECK(fake != nullptr);
    fake->set_capture(capture_);
    if (capture_ != nullptr) {
      if (const auto other = capture_->others.find(this); other != capture_->others.end()) other->second = true;
      return fake->asked().Record(run);
    }
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
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return queue_.empty() && !busy_; });
    return std::exchange(error_, absl::OkStatus());
  }
  absl::Status Error() override {
    const std::unique_lock<std::mutex> lock(mutex_);
    return std::exchange(error_, absl::OkStatus());
  }

  absl::Status BeginCapture() override {
    if (capture_ != nullptr) return absl::FailedPreconditionError("captures already");
    capture_ = std::make_shared<Capture>();
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<CapturedWork>> EndCapture() override;

  void EnqueueKernel(std::function<absl::Status()> kernel) {
    if (apart_ == nullptr) return Enqueue(std::move(kernel));
    Enqueue([apart = apart_, gpu = gpu_, kernel = std::move(kernel)] { return apart->RunKernel(gpu, kernel); });
  }
  void Enqueue(std::function<absl::Status()> work) {
    if (capture_ != nullptr) {
      capture_->work.push_back(std::move(work));
      if (const auto other = capture_->others.find(this); other != capture_->others.end()) other->second = false;
      return;
    }
    const std::unique_lock<std::mutex> lock(mutex_);
    queue_.push_back(std::move(work));
    changed_.notify_all();
  }

 private:
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
  explicit FakeCapturedWork(std::vector<std::function<absl::Status()>> work) : work_(std::move(work)) {}
  absl::Status Enqueue(Stream& stream) override {
    for (const std::function<absl::Status()>& work : work_) static_cast<FakeStream&>(stream).Enqueue(work);
    return absl::OkStatus();
  }

 private:
  const std::vector<std::function<absl::Status()>> work_;
};

absl::StatusOr<std::unique_ptr<CapturedWork>> FakeStream::EndCapture() {
  if (capture_ == nullptr) return absl::FailedPreconditionError("does not capture");
  const std::shared_ptr<Capture> capture = std::exchange(capture_, nullptr);
  bool whole = true;
  for (const auto& [stream, joined] : capture->others) {
    stream->capture_ = nullptr;
    whole = whole && joined;
  }
  if (!whole) return absl::FailedPreconditionError("a stream has not joined the one that records");
  return std::make_unique<FakeCapturedWork>(std::move(capture->work));
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
  absl::StatusOr<void*> AllocateHost(size_t bytes) override { return AllocateAligned(bytes); }
  void DeallocateHost(void* memory, size_t) override { FreeAligned(memory); }
  absl::StatusOr<std::unique_ptr<Stream>> NewStream(StreamKind kind) override {
    return std::make_unique<FakeStream>(kind, physical_id(), apart_);
  }
  std::unique_ptr<Event> NewEvent() override { return std::make_unique<FakeEvent>(); }
  bool CompilesKernels() override { return compiler_ != nullptr; }
  absl::StatusOr<std::shared_ptr<const CompiledKernel>> CompileKernel(const std::string& source) override {
    return compiler_(source);
  }
  bool Reaches(const FakeGpu& other) const {
    return apart_ == nullptr || apart_->Reaches(physical_id(), other.physical_id());
  }

 private:
  const bool alone_, tagged_;
  const KernelCompiler compiler_;
  const MathMode math_;
  const std::shared_ptr<ApartMemory> apart_;
  const DeviceName name_;
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
