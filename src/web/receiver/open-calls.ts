/** Questions to another thread, each under a number, until the answer comes back under it. */
export interface OpenCalls<T> {
  open: () => { call: number; answer: Promise<T> };
  /** Does nothing where the call is not open any more. */
  resolve: (call: number, answer: T) => void;
  reject: (call: number, error: unknown) => void;
  rejectAll: (error: unknown) => void;
  /** How many are open. */
  readonly count: number;
}

export function openCalls<T>(): OpenCalls<T> {
  const calls = new Map<number, PromiseWithResolvers<T>>();
  let last = 0;

  function end(call: number): PromiseWithResolvers<T> | undefined {
    const ended = calls.get(call);
    calls.delete(call);
    return ended;
  }

  return {
    open: () => {
      const answer = Promise.withResolvers<T>();
      last += 1;
      calls.set(last, answer);
      return { call: last, answer: answer.promise };
    },
    resolve: (call, answer) => end(call)?.resolve(answer),
    reject: (call, error) => end(call)?.reject(error),
    rejectAll: (error) => {
      for (const call of calls.keys()) end(call)?.reject(error);
    },
    get count() {
      return calls.size;
    },
  };
}
