/** Makes something once per key and keeps it as long as the key stands, such as what follows from a table's shape. */
export function oncePer<K extends WeakKey, T>(make: (key: K) => T): (key: K) => T {
  const made = new WeakMap<K, { it: T }>();
  return (key) => {
    let known = made.get(key);
    if (known === undefined) made.set(key, (known = { it: make(key) }));
    return known.it;
  };
}
