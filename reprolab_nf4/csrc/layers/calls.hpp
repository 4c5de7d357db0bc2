// The call of a layer: bitsandbytes' forward in Python, or one launch of libreprolab_nf4.so if
// there is a plan for the product and the layer has not changed since.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "reprolab_nf4/csrc/layers/layer.hpp"
#include "reprolab_nf4/csrc/layers/object.hpp"

namespace reprolab::layers {

/// reprolab_nf4_make_plan, _run and _forget, whose addresses Python passes.
using Make = int (*)(const char* kernel, int is_bf16, const void* codes, const void* absmax,
                     const void* scale_codes, const void* map, float offset, const void* bias,
                     std::int64_t m, std::int64_t n, std::int64_t k, int block_size,
                     int second_block_size, void** plan, std::uint64_t* workspace_bytes);
using Run = int (*)(const void* plan, const void* input, void* output, int weights_ready,
                    void* workspace, void* stream);
using Forget = int (*)(void* plan);

/// A plan of libreprolab_nf4.so as a Python object that frees it.
struct Plan {
  PyObject_HEAD void* handle;
  Run run;
  Forget forget;
  std::int64_t n, k;
  std::uint64_t workspace_bytes;
  /// Whether PyTorch counts the writes to the weights, and whether a run has waited for them.
  bool counts_writes, weights_ready;
  /// The arguments that allocate the output: sizes, strides and type, as in the latest call.
  PyObject* output;
  PyObject* type;
  PyObject* allocate;  ///< (sizes, strides, type) -> tensor on the plan's device
  bool is_on_current;  ///< Whether that is the device on which PyTorch allocates by default.
};

inline void free_plan(PyObject* object) {
  auto& plan = *reinterpret_cast<Plan*>(object);
  PyTypeObject* const type = Py_TYPE(object);
  if (plan.handle != nullptr) plan.forget(plan.handle);
  Py_XDECREF(plan.output);
  Py_XDECREF(plan.type);
  Py_XDECREF(plan.allocate);
  PyObject_Free(object);
  Py_DECREF(type);
}

inline PyTypeObject* plan_type() {
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(free_plan)}, {0, nullptr}};
  static PyType_Spec spec = {"reprolab_nf4._layers.Plan", sizeof(Plan), 0, Py_TPFLAGS_DEFAULT,
                             slots};
  static PyObject* const type = PyType_FromSpec(&spec);
  return reinterpret_cast<PyTypeObject*>(type);
}

/// None where the kernel does not support the product.
inline PyObject* new_plan(PyObject*, PyObject* arguments) {
  unsigned long long make, run, forget, codes, absmax, scale_codes, map, bias;
  const char* kernel;
  int is_bf16, block_size, second_block_size;
  float offset;
  long long m, n, k;
  PyObject *output_type, *allocate;
  if (!PyArg_ParseTuple(arguments, "KKKspKKKKfKLLLiiOO", &make, &run, &forget, &kernel, &is_bf16,
                        &codes, &absmax, &scale_codes, &map, &offset, &bias, &m, &n, &k,
                        &block_size, &second_block_size, &output_type, &allocate)) {
    return nullptr;
  }
  const auto at = [](unsigned long long address) { return reinterpret_cast<void*>(address); };
  PyObject* const object = PyType_GenericAlloc(plan_type(), 0);
  if (object == nullptr) return nullptr;
  auto& plan = *reinterpret_cast<Plan*>(object);
  plan.run = reinterpret_cast<Run>(run);
  plan.forget = reinterpret_cast<Forget>(forget);
  plan.n = n;
  plan.k = k;
  plan.type = Py_NewRef(output_type);
  plan.allocate = Py_NewRef(allocate);
  plan.is_on_current = true;
  if (reinterpret_cast<Make>(make)(kernel, is_bf16, at(codes), at(absmax), at(scale_codes), at(map),
                                   offset, at(bias), m, n, k, block_size, second_block_size,
                                   &plan.handle, &plan.workspace_bytes) != 0) {
    Py_DECREF(object);
    return Py_NewRef(Py_None);
  }
  return object;
}

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
  Ref make;     ///< make(layer, x): plans the product; False if it cannot be now
  Reader reader;
  Classes classes;
  std::vector<Guard> guards;
  std::vector<Setting> settings;
  Ref grad_is_enabled, is_capturing;
  Ref allocate_on_cpu, allocate_on_gpu;  ///< (sizes, strides, type) -> tensor on the current one
  Ref byte_type;
  std::int64_t max_rows;  ///< Products of more are bitsandbytes' own.
};

class Calls {
 public:
  explicit Calls(Given given) : given_(std::move(given)) {}

  /// The layer's output; null with an exception.
  PyObject* call(PyObject* module, PyObject* x);
  /// Keeps what plans of the layer will depend on, and forgets its plans, unless it is unchanged.
  /// Its generation; 0, perhaps with an exception, where no plan supports it.
  std::int64_t bind(PyObject* module);
  /// Takes a plan, None or False, for the layer as it was bound in that generation.
  bool add(PyObject* module, PyObject* x, PyObject* plan, std::int64_t generation);
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

  /// Whether close() was not called, and all settings are as given.
  bool is_in_use();
  /// Whether all guards are.
  bool is_idle();
  bool needs_gradient(PyObject* tensor);
  bool read(PyObject* x, exchange::Tensor& view, Product& product);
  std::shared_ptr<Layer> layer_of(PyObject* module);
  Decision decide(PyObject* module, PyObject* x, const Product& wanted, Arrays& arrays, Ref& plan);
  Decision attempt(PyObject* module, PyObject* x, Ref& output);
  /// bitsandbytes' forward, whose product is its own.
  PyObject* leave(PyObject* module, PyObject* x);
  Ref run(Plan& plan, const exchange::Tensor& x);
  Ref output_for(Plan& plan, const exchange::Tensor& x);
  Ref allocate(Plan& plan, const exchange::Device& device, PyObject* arguments, void*& first);
  Workspace* workspace_for(Plan& plan, const exchange::Device& device, void* stream);

  Given given_;
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
