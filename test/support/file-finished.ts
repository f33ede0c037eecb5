type Cleanup = () => Promise<void>;

let cleanups: Cleanup[] = [];

/** Registers what is to be done after the last test of this file. A module is loaded once for many files. */
export function onFileFinished(cleanup: Cleanup): void {
  cleanups.push(cleanup);
}

/** Called after the last test of every file, by a setup file. */
export async function finishFile(): Promise<void> {
  const due = cleanups;
  cleanups = [];
  for (const cleanup of due) await cleanup();
}
