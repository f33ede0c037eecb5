/** How the addresses of one kind of database are written. No fault shows anything of the value. */
export interface AddressGrammar {
  /** Matches what is meant as such an address; `fault` says more. */
  readonly pattern: RegExp;
  /** The same for editors, without anchors. */
  readonly editorPattern: string;
  /** For people, behind `expected`. */
  readonly expected: string;
  /** Why an address that matches cannot be used, as `expected …`; null if it can. */
  fault(address: string): string | null;
  /** Where one source's rows go, in the one spelling that `readAddress` takes. */
  ofSource(address: string, source: string, cwd: string): string;
  /** The folder that holds all sources; null for what is no file. */
  folder(address: string, cwd: string): string | null;
  /** The namespace that each source has in the database, and the part of the address that names it. */
  readonly place: { readonly what: string; readonly where: string };
  /** True if the address gives each source a place of its own. */
  hasPlacePerSource(address: string): boolean;
  /** Why a source cannot have the place that its name leads to, as `expected …`; `all` are the names of all sources. */
  sourceFault(address: string, source: string, all: readonly string[]): string | null;
  /** Why rows and password would go readable over the network, as `expected …`; null if they would not. */
  transportFault(address: string, env: NodeJS.ProcessEnv): string | null;
  /** All of an address that must not be written, also of one that has a fault. */
  secrets(address: string, env: NodeJS.ProcessEnv): string[];
}
