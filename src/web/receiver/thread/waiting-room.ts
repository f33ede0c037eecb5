/** Deliveries, and the bytes that they take up. */
export interface Load {
  rows: number;
  bytes: number;
}

/**
 * How much waits in an inbox, known without a query for each delivery: the last count, and what has come in since. What
 * was settled meanwhile is still counted in, so it is never too low but for what others write.
 */
export interface WaitingRoom {
  /** Counts one in until its entry stays or leaves; returns null if there is no room for it. */
  enter(bytes: number): Entry | null;
  /** Called when a count begins; returns the function to call with the result. */
  counting(): (counted: Load) => void;
}

/** One delivery on its way into the inbox. */
interface Entry {
  /** It waits there now, or may. */
  stays(): void;
  /** It does not wait there anew. */
  leaves(): void;
}

/** `mostOf` returns how much may wait just now. */
export function createWaitingRoom(mostOf: () => Load): WaitingRoom {
  /** On their way: a count may see them or not. */
  const open = none();
  let counted = none();
  let since = none();
  /** Came in since the count under way began, which may not see it. */
  let next: Load | null = null;

  function change(by: Load, sign: 1 | -1): void {
    for (const load of next === null ? [since] : [since, next]) add(load, by, sign);
  }

  return {
    enter: (bytes) => {
      const one = { rows: 1, bytes };
      const most = mostOf();
      if (counted.rows + since.rows >= most.rows || counted.bytes + since.bytes + bytes > most.bytes) return null;
      add(open, one, 1);
      change(one, 1);
      return {
        stays: () => add(open, one, -1),
        leaves: () => {
          add(open, one, -1);
          change(one, -1);
        },
      };
    },
    counting: () => {
      const seenAfter = { ...open };
      next = seenAfter;
      return (result) => {
        if (next !== seenAfter) return;
        counted = result;
        since = seenAfter;
        next = null;
      };
    },
  };
}

function none(): Load {
  return { rows: 0, bytes: 0 };
}

function add(load: Load, { rows, bytes }: Load, sign: 1 | -1): void {
  load.rows += sign * rows;
  load.bytes += sign * bytes;
}
