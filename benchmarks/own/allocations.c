/* Counts the interpreter's allocations: hooks the allocators of all domains and adds one a call. */
#include <Python.h>

static PyMemAllocatorEx original[3];
static long long calls = 0;

static void *count_malloc(void *ctx, size_t size) {
    PyMemAllocatorEx *alloc = ctx;
    calls++;
    return alloc->malloc(alloc->ctx, size);
}

static void *count_calloc(void *ctx, size_t number, size_t size) {
    PyMemAllocatorEx *alloc = ctx;
    calls++;
    return alloc->calloc(alloc->ctx, number, size);
}

static void *count_realloc(void *ctx, void *old, size_t size) {
    PyMemAllocatorEx *alloc = ctx;
    calls++;
    return alloc->realloc(alloc->ctx, old, size);
}

static void pass_free(void *ctx, void *old) {
    PyMemAllocatorEx *alloc = ctx;
    alloc->free(alloc->ctx, old);
}

void install(void) {
    PyMemAllocatorDomain domains[3] = {PYMEM_DOMAIN_RAW, PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ};
    for (int at = 0; at < 3; at++) {
        PyMem_GetAllocator(domains[at], &original[at]);
        PyMemAllocatorEx hook = {&original[at], count_malloc, count_calloc, count_realloc, pass_free};
        PyMem_SetAllocator(domains[at], &hook);
    }
}

long long allocations(void) { return calls; }
