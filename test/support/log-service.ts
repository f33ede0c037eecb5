/** A record of the service. */
export interface Doc {
  id: string;
  title: string;
  rev: number;
}

/** One change in the service's log, the oldest first. */
export interface LogEntry {
  seq: number;
  id: string;
  /** Null if it was deleted. */
  doc: Doc | null;
}

/** Records and the log of their changes, as services with a feed of changes keep them. */
export class DocLog {
  readonly docs = new Map<string, Doc>();
  entries: LogEntry[] = [];
  seq = 0;

  constructor(count: number) {
    for (let at = 0; at < count; at += 1) this.put(`d${String(at).padStart(3, '0')}`);
  }

  put(id: string, title = `Title of ${id}`): void {
    const doc = { id, title, rev: (this.docs.get(id)?.rev ?? 0) + 1 };
    this.docs.set(id, doc);
    this.#log(id, doc);
  }

  remove(id: string): void {
    if (this.docs.delete(id)) this.#log(id, null);
  }

  /** The log behind a place, only with the last word of each record if `latest`. */
  since(seq: number, latest: boolean): LogEntry[] {
    const behind = this.entries.filter((entry) => entry.seq > seq);
    return latest ? behind.filter(({ id, seq: at }) => !this.entries.some((e) => e.id === id && e.seq > at)) : behind;
  }

  /** As the copy must have them. */
  rows(): Doc[] {
    return [...this.docs.values()].toSorted((a, b) => (a.id < b.id ? -1 : 1));
  }

  #log(id: string, doc: Doc | null): void {
    this.entries.push({ seq: (this.seq += 1), id, doc });
  }
}
