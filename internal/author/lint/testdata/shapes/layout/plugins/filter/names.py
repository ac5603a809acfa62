class FilterModule:
    def filters(self):
        return {}
