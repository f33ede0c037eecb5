/** What went wrong, as a person is told it. */
interface Fault {
  message: string;
  hint?: string | undefined;
}

const ADDRESS = /\b(?:GET|POST) \S+/;
/** What differs from request to request, though the fault is the same. */
const OWN_TO_A_REQUEST = / \(request [^)]*\)|; \d+ attempts/g;
/** What a service adds to a 401 says nothing of the credential that another resource would not be told. */
const REFUSAL = /( answered 401: [^:]*):.*/s;

/**
 * Tells each fault of a request once: whoever has met it first is named to those that meet it after, since a credential
 * that is not accepted is one fault, however many resources ask with it. Faults without an address are left as they are.
 */
export function reportOnce(): (who: string, fault: Fault) => Fault {
  const told = new Map<string, string>();
  return (who, fault) => {
    const address = ADDRESS.exec(fault.message)?.[0];
    if (address === undefined) return fault;
    const text = fault.message.replace(address, '').replaceAll(OWN_TO_A_REQUEST, '').replace(REFUSAL, '$1');
    const key = JSON.stringify([text, fault.hint]);
    const first = told.get(key);
    if (first !== undefined) return { message: `${address}: the same as for ${first}` };
    told.set(key, who);
    return fault;
  };
}
