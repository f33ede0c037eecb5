/** A fault as a person sees it. */
interface Fault {
  message: string;
  hint?: string | undefined;
}

const ADDRESS = /\b(?:GET|POST) \S+/;
/** Parts that differ from request to request, though the fault is the same. */
const PER_REQUEST = / \(request [^)]*\)|; \d+ attempts/g;
/** The service's own text of a 401, which may differ by resource though the credential is the same. */
const UNAUTHORIZED = /( answered 401: [^:]*):.*/s;

/**
 * Reports each fault of a request once: later ones refer to the first resource that had it, because a credential that
 * is not accepted is one fault, however many resources use it. Faults without an address are returned as they are.
 */
export function reportOnce(): (who: string, fault: Fault) => Fault {
  const reported = new Map<string, string>();
  return (who, fault) => {
    const address = ADDRESS.exec(fault.message)?.[0];
    if (address === undefined) return fault;
    const text = fault.message.replace(address, '').replaceAll(PER_REQUEST, '').replace(UNAUTHORIZED, '$1');
    const key = JSON.stringify([text, fault.hint]);
    const first = reported.get(key);
    if (first !== undefined) return { message: `${address}: the same as for ${first}` };
    reported.set(key, who);
    return fault;
  };
}
