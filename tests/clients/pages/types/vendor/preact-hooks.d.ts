export declare function useEffect(effect: () => unknown, inputs?: readonly unknown[]): void;
export declare function useLayoutEffect(effect: () => unknown, inputs?: readonly unknown[]): void;
export declare function useReducer<S>(reducer: (state: S) => S, first: S): [S, (action: undefined) => void];
export declare function useRef<T>(first: T): { current: T };
export declare function useState<T>(first: T | (() => T)): [T, (next: T | ((before: T) => T)) => void];
