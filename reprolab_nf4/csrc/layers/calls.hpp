// The call of a layer: bitsandbytes' forward in Python, or one launch of libreprolab_nf4.so if
// there is a plan for the product and the layer has not changed since.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "reprolab_nf4/csrc/layers/exchange.hpp"
#include "reprolab_nf4/csrc/layers/layer.hpp"
#include "reprolab_nf4/csrc/layers/object.hpp"
#include "reprolab_nf4/csrc/layers/plan.hpp"

namespace reprolab::layers {

/// A function that returns `idle` while PyTorch's operators are neither recorded, transformed, nor
/// replaced.
struct Guard {
  Ref function, idle;
};

/// The value in a module's dictionary, compared by identity, while PyTorch's operators are so and
/// matmul_4bit is install()'s.
struct Setting {
  Ref dictionary, name, value;
};

/// The objects of torch and of install(), which layers.py passes.
struct Given {
  Ref forward;  ///< bitsandbytes' Linear4bit.forward
  Ref left;     ///< Its is_on tells matmul_4bit that this thread's product is bitsandbytes' own.
  Ref make;     ///< make(layer, x): calls forward and plans the product
  Reader reader;
  Classes classes;
  std::vector<Guard> guards;
  std::vector<Setting> settings;
  Ref grad_is_enabled, is_capturing;
  Ref allocate_on_cpu, allocate_on_gpu;  ///< (sizes, strides, type) -> tensor on the current one
  Ref byte_type;
  std::int64_t max_rows;
};

class Calls {
 public:
  explicit Calls(Given given) : given_(std::move(given)) {}

  /// The layer's output; null with an exception. The second: of a layer in inference mode.
  PyObject* call(PyObject* module, PyObject* x);
  PyObject* infer(PyObject* module, PyObject* x);
  /// bitsandbytes' forward, whose product is its own.
  PyObject* leave(PyObject* module, PyObject* x);
  /// Whether the layer is unchanged since it was bound.
  bool is_bound(PyObject* module);
  /// Forgets the layer's plans. `facts` and `arrays` are lists of tuples. False, without an
  /// exception, where an array cannot be read.
  bool bind(PyObject* module, PyObject* facts, PyObject* arrays);
  /// Takes a plan, None or False.
  bool add(PyObject* module, PyObject* x, PyObject* plan);
  /// Removes a module that was freed, by its weak reference.
  void forget(PyObject* weak);
  /// All later calls run bitsandbytes' forward.
  void close();

  Ref weak_callback;  ///< Calls forget().

 private:
  enum class Decision { forward, leave, make, run };
  struct Workspace {
    exchange::Device device;
    void* stream;
    void* first;
    std::uint64_t bytes;
    Ref tensor;
  };

  /// Whether PyTorch's operators only compute, no other code has replaced matmul_4bit, and close()
  /// was not called.
  bool is_idle();
  bool records_gradients();
  bool read(PyObject* x, exchange::Tensor& view, Product& product);
  std::shared_ptr<Layer> layer_of(PyObject* module);
  Decision decide(PyObject* module, PyObject* x, const Product& wanted, Arrays& arrays, Ref& plan);
  Decision attempt(PyObject* module, PyObject* x, Ref& output);
  Ref run(Plan& plan, const exchange::Tensor& x);
  Ref output_for(Plan& plan, const exchange::Tensor& x);
  Ref allocate(Plan& plan, const exchange::Device& device, PyObject* arguments, void*& first);
  Workspace* workspace_for(Plan& plan, const exchange::Device& device, void* stream);

  Given given_;
  bool is_open_ = true;
  /// Shared: Python code that runs during a call may remove the layer.
  std::unordered_map<PyObject*, std::shared_ptr<Layer>> layers_;
  std::vector<Workspace> workspaces_;
};

// module.cpp
PyTypeObject* calls_type();
Calls& calls_of(PyObject* object);

/// The type of Linear4bit.__call__ in C, torch.nn.Module.__call__ for a layer without hooks. In
/// Python: LayerCall(Calls, in_python, forward, module, module_call, call_impl, tracing_state,
/// global_hooks).
PyTypeObject* layer_call_type();

}  // namespace reprolab::layers
