/** What a request carries to prove who asks: headers by name in lower case, and query parameters. */
export interface Proof {
  readonly headers: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
}

export const NO_PROOF: Proof = { headers: {}, query: {} };
